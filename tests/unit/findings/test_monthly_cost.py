"""What a finding costs a month, worked out by hand here."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from tests.golden import Golden
from tests.unit.alerts.test_message import FINDING

from plumbline.analysis.cost.unit_costs import costs_of
from plumbline.analysis.decisions.savings import CostAnswer, find_switches
from plumbline.analysis.prices.book import quote
from plumbline.declarations import Alerts, Provider, load
from plumbline.declarations.alerts import RentedVolume
from plumbline.findings.monthly_cost import monthly_cost
from plumbline.results.finding import Member

DAY = date(2026, 11, 20)
MONTH_S = 730 * 3600.0
KEY, OTHER = FINDING.series_key, "inference/chat@1/h2/triton/local-2core/here/host-2core"


@pytest.fixture(scope="module")
def provider() -> Provider:
    declared = load().providers["local-2core"]  # a price of its own, so that the example's may change
    price = declared.price_list[0].model_copy(update={"price": 2.0, "since": date(2026, 1, 1), "until": None, "purchase": "on_demand"})
    return declared.model_copy(update={"prices": (price, price.model_copy(update={"purchase": "spot", "price": 1.0}))})


def volumes(*rows: RentedVolume) -> Alerts:
    return Alerts(volumes=rows)


def volume(workload: str | None = None, purchase: str = "on_demand", time: float = MONTH_S) -> RentedVolume:
    return RentedVolume.model_construct(provider="local-*", workload=workload, time_per_month=time, purchase=purchase)


def slower(effect: float, low: float | None = None, high: float | None = None, name: str = "step_time", key: str = KEY) -> Member:
    return Member(name, "", effect, low, high, series_key=key)


ALL = volumes(volume())


def test_a_longer_step_costs_its_share_of_the_month(provider: Provider, golden: Golden) -> None:
    cost = monthly_cost(replace(FINDING, members=(slower(0.1, 0.08, 0.12),)), ALL, provider, DAY)
    assert cost.usd == pytest.approx(146.0) and (cost.low, cost.high) == (pytest.approx(116.8), pytest.approx(175.2))
    golden("alerts.monthly_cost", cost.text)


def test_a_fifth_fewer_tokens_take_a_quarter_longer(provider: Provider) -> None:
    members = (slower(0.9), slower(-0.2, -0.25, -0.1, "tokens_per_second median"))
    cost = monthly_cost(replace(FINDING, members=members), ALL, provider, DAY)
    assert cost.usd == pytest.approx(365.0) and cost.low is not None and cost.high is not None and cost.low < 365 < cost.high


def test_a_fall_of_the_sustained_rate_costs_what_the_unit_costs_say(provider: Provider) -> None:
    # 30 % less capacity: each token costs 1 / 0.7 = 42.9 % more. 730 h at 2 USD/h: 625.71 USD.
    served = replace(FINDING, series_key=OTHER, workload="chat", workload_kind="inference", series=(OTHER,))
    members = (slower(0.01, name="output_token_throughput", key=OTHER), slower(-0.3, name="highest_sustained_rate", key=OTHER))
    cost = monthly_cost(replace(served, members=members), ALL, provider, DAY)
    assert cost.usd == pytest.approx(730 * 2 * (1 / 0.7 - 1)) == pytest.approx(625.714, abs=1e-3)

    def unit_cost(rate: float) -> float:
        numbers = {"highest_sustained_rate": rate, "output_token_throughput": 200.0, "request_throughput": 1.0, "error_rate": 0.0}
        priced = costs_of("inference", quote(provider, DAY), lambda metric, _, phase: numbers.get(metric) if phase == "sweep" else None)
        return next(c.value for c in priced if c.metric == "cost_per_1m_output_tokens" and c.value is not None)

    tokens = 730 * 3600 * 10.0 * 200.0 / 1e6
    assert cost.usd == pytest.approx(tokens * (unit_cost(7.0) - unit_cost(10.0)))
    costs = {"local-2core": unit_cost(7.0), "elsewhere": unit_cost(10.0)}
    answer = CostAnswer("t", "inference", "chat", costs, "elsewhere", None, lambda *_: 2.0)
    # The decision moves what 730 h bring at the lower rate, which is 0.7 of the finding's output.
    (switch,) = find_switches([answer], ALL.volumes)
    assert switch.usd == pytest.approx(0.7 * cost.usd)


def test_a_volume_without_a_workload_is_shared_by_what_teams_decide_by_there_as_in_a_decision(provider: Provider) -> None:
    finding = replace(FINDING, members=(slower(0.1),))
    assert monthly_cost(finding, ALL, provider, DAY, decided={"gpt", "chat"}).usd == pytest.approx(73.0)


def test_what_got_faster_saves(provider: Provider, golden: Golden) -> None:
    cost = monthly_cost(replace(FINDING, members=(slower(-0.1, -0.12, -0.08),)), ALL, provider, DAY)
    assert cost.usd == pytest.approx(-146.0)
    golden("alerts.monthly_saving", cost.text)


def test_each_workload_by_its_own_volume_and_the_rest_by_what_is_left(provider: Provider) -> None:
    finding = replace(FINDING, members=(slower(0.1), slower(-0.5, name="output_token_throughput", key=OTHER)), series=(KEY, OTHER))
    both = volumes(volume("gpt", time=3600.0), volume("chat", "spot", time=3600.0))
    assert monthly_cost(finding, both, provider, DAY).usd == pytest.approx(0.1 * 2 + 1.0 * 1)
    one = volumes(volume("gpt", time=3600.0), volume(time=7200.0))
    assert monthly_cost(finding, one, provider, DAY).usd == pytest.approx(0.1 * 2 + 1.0 * 2 * 2)


def test_a_price_that_rose_costs_by_the_volume_of_its_purchase(provider: Provider) -> None:
    dearer = replace(FINDING, kind="price", effect=0.25, members=(), subject="price spot")
    mixed = volumes(volume(time=3600.0), volume(purchase="spot", time=7200.0))
    assert monthly_cost(dearer, mixed, provider, DAY).usd == pytest.approx(0.25 * 1.0 * 2)
    assert monthly_cost(replace(dearer, subject="price on-demand"), mixed, provider, DAY).usd == pytest.approx(0.25 * 2.0)


def test_a_price_that_is_held_costs_nothing_and_an_accepted_one_goes_before_the_declared(provider: Provider) -> None:
    dearer = replace(FINDING, kind="price", effect=0.25, members=(), subject="held price on-demand")
    assert monthly_cost(dearer, ALL, provider, DAY).text == ""
    cost = monthly_cost(replace(dearer, subject="price on-demand"), ALL, provider, DAY, {"on_demand": 4.0}.get)
    assert cost.usd == pytest.approx(0.25 * 4 * 730)
    assert monthly_cost(replace(dearer, subject="price on-demand"), ALL, provider, DAY, lambda _: None).usd == pytest.approx(365)


@pytest.mark.parametrize(
    ("alerts", "members", "said"),
    [
        (Alerts(), (slower(0.1),), "`volumes` in alerts.yaml"),
        (volumes(volume("chat")), (slower(0.1),), "`volumes` in alerts.yaml"),
        (volumes(volume(purchase="reserved")), (slower(0.1),), "no reserved price"),
        (ALL, (slower(0.3, name="time_to_first_token p50"),), "throughput"),
    ],
)
def test_what_cannot_be_told_says_what_is_missing(alerts: Alerts, members: tuple[Member, ...], said: str, provider: Provider) -> None:
    cost = monthly_cost(replace(FINDING, members=members), alerts, provider, DAY)
    assert cost.usd is None and said in cost.text


def test_what_only_a_probe_saw_has_no_cost_yet(provider: Provider) -> None:
    probed = replace(FINDING, campaign_id=None, since="2026-11-20", members=(slower(-0.1, name="matmul_tflops"),))
    cost = monthly_cost(probed, ALL, provider, DAY)
    measured = monthly_cost(replace(probed, campaign_id="2026-11", since=None), ALL, provider, DAY)
    assert cost.usd is None and cost.text != measured.text


def test_findings_without_a_cost_say_nothing_of_it(provider: Provider) -> None:
    assert monthly_cost(replace(FINDING, kind="reliability"), ALL, provider, DAY).text == ""
    assert "no longer declared" in monthly_cost(replace(FINDING, members=(slower(0.1),)), ALL, None, DAY).text
