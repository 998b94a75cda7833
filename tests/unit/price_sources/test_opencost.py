"""What our pods did cost: ours alone, over their accelerator hours, and never 0 where OpenCost knows nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import httpx
import pytest
from tests.fakes.listening import somewhere
from tests.fakes.opencost import FakeOpencost, Pod
from tests.fakes.trials import cluster_provider

from plumbline.declarations import Provider
from plumbline.declarations.providers.provider import OpencostSource
from plumbline.launch.cluster.names import PROVIDER
from plumbline.price_sources import NoPrice, PriceSourceDown
from plumbline.price_sources.opencost import OpencostPrices

OURS, OTHER = {PROVIDER: "eks-p5"}, {PROVIDER: "eks-p5en"}
PODS = [
    Pod("plumbline", OURS, cost=60.0, gpu_hours=8.0, core_hours=176.0),
    Pod("plumbline", OURS, cost=50.0, gpu_hours=8.0, core_hours=176.0),
    Pod("plumbline", OTHER, cost=900.0, gpu_hours=8.0),
    Pod("plumbline", {}, cost=7.0, gpu_hours=0.0),
    Pod("elsewhere", OURS, cost=4000.0, gpu_hours=1.0),
]


def source(opencost: FakeOpencost, window: str = "2d") -> OpencostPrices:
    return OpencostPrices(OpencostSource(kind="opencost", url=opencost.url, window=window))


@pytest.mark.parametrize("names_labels", [False, True], ids=["namespace/value", "namespace/label=value"])
def test_the_cost_of_our_pods_over_their_gpu_hours(names_labels: bool, provider: Callable[..., Provider], at: datetime) -> None:
    with FakeOpencost(PODS, names_labels=names_labels) as opencost:
        (reading,) = source(opencost).read(provider(), at)
    assert reading.usd_per_gpu_hour == pytest.approx(110.0 / 16.0)
    assert reading.usd_per_instance_hour == pytest.approx(8 * 110.0 / 16.0)
    assert (reading.purchase, reading.source, reading.observed_at) == ("on_demand", "opencost", at)
    assert opencost.asked[0]["window"] == "2026-11-19T06:00:00Z,2026-11-21T06:00:00Z"
    assert reading.source_version == "allocation 2026-11-19T06:00:00Z,2026-11-21T06:00:00Z"


def test_a_cpu_provider_is_priced_by_the_core(at: datetime) -> None:
    with FakeOpencost([Pod("plumbline", {PROVIDER: "cluster-a"}, cost=4.0, gpu_hours=0.0, core_hours=100.0)]) as opencost:
        (reading,) = source(opencost).read(cluster_provider(), at)
    assert reading.usd_per_gpu_hour == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([Pod("plumbline", OTHER, 1.0, 1.0)], r"no pods of plumbline/provider=eks-p5 in namespace plumbline within .*; run a trial"),
        ([Pod("plumbline", OURS, 1.0, 0.0)], r"no gpuHours of"),
        ([Pod("plumbline", OURS, 0.0, 8.0)], r"no cost of .*; give OpenCost the nodes' prices"),
        ([Pod("plumbline", OURS, 0.0067, 96.0)], r"a total cost of 0\.0067 USD for 96 gpuHours .*no price of the nodes; give OpenCost"),
    ],
)
def test_what_opencost_does_not_know_is_no_price(pods: list[Pod], said: str, provider: Callable[..., Provider], at: datetime) -> None:
    with FakeOpencost(pods) as opencost, pytest.raises(NoPrice, match=said) as error:
        source(opencost).read(provider(), at)
    assert (error.value.source, error.value.provider) == ("opencost", "eks-p5")


def test_a_cost_without_the_accelerators_is_no_price(provider: Callable[..., Provider], at: datetime) -> None:
    """Where OpenCost names the parts, memory alone makes no price of a GPU."""
    row = {"name": "plumbline/eks-p5", "totalCost": 40.0, "gpuCost": 0.0, "gpuHours": 96.0, "ramCost": 40.0}
    unpriced = FakeOpencost(PODS, answer=(200, json.dumps({"data": [{"a": row}]})))
    with unpriced as opencost, pytest.raises(NoPrice, match=r"a gpuCost of 0 USD for 96 gpuHours"):
        source(opencost).read(provider(), at)
    with FakeOpencost(PODS, answer=(200, json.dumps({"data": [{"a": {**row, "gpuCost": 200.0, "totalCost": 240.0}}]}))) as opencost:
        assert source(opencost).read(provider(), at)[0].usd_per_gpu_hour == 2.5


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, "prometheus is gone"), r"answers 500: prometheus is gone; check that OpenCost runs"),
        ((200, "<html>"), r"no JSON with a list `data`.*port 9003"),
        ((200, '{"data": null}'), r"no JSON with a list `data`"),
        ((200, '{"data": [{"a": {"name": "plumbline/eks-p5"}}]}'), r"without totalCost and gpuHours"),
        (
            (200, '{"data": [{"a": {"name": "plumbline/eks-p5", "totalCost": Infinity, "gpuHours": 8}}]}'),
            r"numbers .inf; expected a number from",
        ),
    ],
)
def test_an_answer_that_is_none_is_down(answer: tuple[int, str], said: str, provider: Callable[..., Provider], at: datetime) -> None:
    with FakeOpencost(PODS, answer=answer) as opencost, pytest.raises(PriceSourceDown, match=said):
        source(opencost).read(provider(), at)


def test_nobody_who_answers_is_down(provider: Callable[..., Provider], at: datetime) -> None:
    with FakeOpencost(PODS) as gone:
        prices = source(gone)
    with pytest.raises(PriceSourceDown) as error:
        prices.read(provider(), at)
    assert isinstance(error.value.__cause__, httpx.ConnectError)


def test_somebody_who_never_answers_is_down(provider: Callable[..., Provider], at: datetime) -> None:
    with somewhere() as port:
        silent = OpencostPrices(OpencostSource(kind="opencost", url=f"http://127.0.0.1:{port}"), timeout_s=0.2)
        with pytest.raises(PriceSourceDown) as error:
            silent.read(provider(), at)
    assert isinstance(error.value.__cause__, httpx.ReadTimeout)


@pytest.mark.fault("OpenCost's address answers with a gzip bomb, or without an end", ends="no price", keeps="the memory of the price check")
@pytest.mark.parametrize(("coding", "said"), [("gzip", "a compressed body"), ("", "more than 1,000 bytes")])
def test_an_answer_is_not_inflated_and_read_up_to_its_bound(
    coding: str, said: str, provider: Callable[..., Provider], at: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plumbline.price_sources.opencost._LONGEST", 1000)

    def stream(method: str, url: str, **options: Any) -> Any:
        assert options.pop("headers") == {"Accept-Encoding": "identity"}
        headers = {"content-encoding": coding} if coding else {}
        answer = httpx.Response(200, headers=headers, stream=httpx.ByteStream(b" " * 4000))
        return nullcontext(answer)

    monkeypatch.setattr(httpx, "stream", stream)
    prices = OpencostPrices(OpencostSource(kind="opencost", url="http://opencost:9003"))
    with pytest.raises(PriceSourceDown, match=said):
        prices.read(provider(), at)
