"""`plumbline cost scenarios|tornado|spot|break-even` over an archive of its own and economics of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, inference_workload, provider, training_metrics, training_workload, trial
from tests.fakes.trials import CONFIG
from tests.golden import Golden
from typer.testing import Result

from plumbline.archive import open_archive

ECONOMICS = """\
assumptions:
  - provider: "lab-*"
    workload: chat-tiny-cpu
    utilisation: {low: 40%, expected: 50%, high: 80%}
    price: {low: 0.5x, expected: 1x, high: 2x}
    volume: {requests: 50000000}
    engineering: 15000 USD/month
    source: a test
spot:
  - {provider: "lab-*", interruptions: 0.5/h, since: 2026-11-01, source: a test}
hosted:
  - {name: elsewhere, workloads: [chat-tiny-cpu], request: 0.50 USD/1k requests, since: 2026-11-01, source: a test}
"""
PRICES = [
    {"purchase": "on_demand", "price": "3.6 USD/h", "since": "2026-01-01", "source": "a test"},
    {"purchase": "spot", "price": "1.2 USD/h", "since": "2026-01-01", "source": "a test"},
]
CHAT = ("lab-2core", "chat-tiny-cpu", "--on", "2026-11-20")
GPT = ("lab-2core", "gpt-test", "--on", "2026-11-20")


@pytest.fixture
def measured(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two repeats of a training and an inference workload on a provider with prices."""
    shutil.copytree(CONFIG, tmp_path / "config")
    (tmp_path / "config" / "economics.yaml").write_text(ECONOMICS)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    place, chat = provider(prices=PRICES), inference_workload(name="chat-tiny-cpu")
    with open_archive() as archive:
        for repeat in (1, 2):
            for asked in (trial(where=place, repeat=repeat), trial("inference", where=place, workload=chat, repeat=repeat)):
                archive.record(document(asked), uri=f"file:///{asked.trial_id}")


@pytest.mark.usefixtures("measured")
def test_scenarios(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    found, code = said("cost", "scenarios", *CHAT)
    # 5.8 requests a second at 3.6 USD/h: a million take 172.41 USD, twice that at half use; 15,000 over 50 are 300 USD.
    assert code == 0 and found["totals"]["expected"] == pytest.approx(2 * 172.414 + 300, abs=0.01)
    assert found["totals"]["best"] < found["totals"]["expected"] < found["totals"]["worst"]
    assert (len(found["trials"]), found["campaign"], found["simulated"]) == (2, "2025-11", False)
    assert [u["what"] for u in found["unknown"]] == ["failure_rate", "egress", "storage"]
    shown = plumbline("cost", "scenarios", *CHAT).stdout
    assert "644.83" in shown and "3.6 USD/h" in shown and "egress: {low:" in shown


@pytest.mark.usefixtures("measured")
def test_tornado(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    found, code = said("cost", "tornado", *CHAT)
    assert code == 0 and [bar["driver"] for bar in found["tornado"]["bars"]] == ["price", "utilisation"]
    assert "instance price" in plumbline("cost", "tornado", *CHAT).stdout


@pytest.mark.usefixtures("measured")
def test_spot(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    found, code = said("cost", "spot", *GPT, "--run", "10h")
    # The penalty of 4 s has the work done again in it: 10 h · e^(0.5/h · 4 s) on spot.
    assert code == 0 and found["spot"]["cost"]["on_demand"] == pytest.approx(36.0)
    assert found["spot"]["cost"]["spot"] == pytest.approx(12.0 * 1.000556, rel=1e-5)
    assert "spot saves 66.6 %" in plumbline("cost", "spot", *GPT, "--run", "10h").stdout
    wrong = plumbline("cost", "spot", *GPT, "--run", "10")
    assert wrong.exit_code == 2 and "--run" in wrong.stderr and "500h" in wrong.stderr
    no_run = plumbline("cost", "spot", *CHAT)
    assert no_run.exit_code == 1 and "is inference" in no_run.stderr


@pytest.mark.usefixtures("measured")
def test_break_even(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    found, code = said("cost", "break-even", *CHAT)
    (one,) = found["break_even"]["against"]
    each = 3.6 / (3600 * 5.8) / 0.5
    assert code == 0 and one["hosted_monthly"] == pytest.approx(25_000.00)
    assert one["own_monthly"] == pytest.approx(50e6 * each + 15_000)
    assert one["volume"]["value"] == pytest.approx(15_000 / (0.0005 - each))
    assert "25,000" in plumbline("cost", "break-even", *CHAT).stdout
    assert plumbline("cost", "break-even", *GPT).exit_code == 1


@pytest.mark.usefixtures("measured")
def test_what_was_never_measured_there(plumbline: Callable[..., Result]) -> None:
    for words, said in (
        (("elsewhere", "gpt-test"), "gpt-test on elsewhere has no results to compute with; it was measured on lab-2core"),
        (("lab-2core", "chat-8b"), "no provider has a usable trial of it"),
        (("lab-2cor", "chat-8b"), 'no provider is called "lab-2cor"; expected one of lab-2core,'),
        (("lab-2core", "chat"), 'no workload is called "chat"; expected one of chat-'),
    ):
        result = plumbline("cost", "scenarios", *words)
        assert result.exit_code == 2 and said in result.stderr


@pytest.mark.usefixtures("measured")
def test_a_day_before_any_price(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    result = plumbline("cost", "scenarios", *CHAT[:2], "--on", "2025-01-01")
    assert result.exit_code == 1 and all(part in result.stderr for part in ("on_demand", "lab-2core", "2025-01-01"))
    found, code = said("cost", "scenarios", *CHAT[:2], "--on", "2025-01-01")
    assert code == 1 and "holds on 2025-01-01" in found["reason"]
    assert plumbline("cost", "scenarios", *CHAT[:2], "--on", "soon").exit_code == 2
    assert plumbline("cost", "scenarios", *CHAT, "--purchase", "barter").exit_code == 2


@pytest.mark.usefixtures("measured")
def test_precision(plumbline: Callable[..., Result], said: Callable[..., Any], golden: Golden) -> None:
    golden("cli.cost_precision_of_nothing", plumbline("cost", "precision").stdout.strip())
    place = provider(prices=PRICES)
    with open_archive() as archive:
        asked = trial(where=place, workload=training_workload(name="gpt-bf16", precision="bf16"))
        archive.record(document(asked, metrics=training_metrics(step_time=0.05)), uri="file:///bf16")
    found, code = said("cost", "precision", "lab-2core")
    assert code == 0 and [row["saving"] for row in found["levers"][0]["rows"]] == [0.0, pytest.approx(0.5)]
    assert "50 % less" in plumbline("cost", "precision").stdout
    assert said("cost", "precision", "local-1core")[0]["levers"] == []
    unknown = plumbline("cost", "precision", "2core")
    assert unknown.exit_code == 2 and 'no provider is called "2core"; expected one of lab-2core, local-2core' in unknown.stderr
