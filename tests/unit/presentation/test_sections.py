"""What the report's sections say of decisions, costs and what is declared: each sentence with and without its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.browser.sample import campaign

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.cost.bill import Bill, Line, Quantity, UnitPrice, Unknown
from plumbline.analysis.cost.campaign_bill import ProviderCost
from plumbline.analysis.decisions.sensitivity import PriceFlip, PriceSwing, WeightFlip, WeightSwing
from plumbline.declarations import TrainingWorkload
from plumbline.declarations.economics import Economics
from plumbline.presentation.charts.costs import bill_chart
from plumbline.presentation.cost_forecasts import campaign_levers, forecast_section
from plumbline.presentation.costs import finished_runs, format_amount, unknown_reasons
from plumbline.presentation.decisions import SwingRow, decision_tables, nearest_change, price_rows, weight_rows
from plumbline.presentation.scorecard_rows import campaign_rows
from plumbline.results import ResultDocument
from plumbline.words.precision import cost_text, saving_text


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


def line(item: str, hours: float, price: float = 2.0) -> Line:
    unit = UnitPrice(price, "USD", "instance-hour")
    return Line(item, Quantity(hours, "instance-hour"), unit, "list", "a list", None)  # type: ignore[arg-type]


def cost(*lines: Line, unknown: tuple[Unknown, ...] = (), finished: int = 2, lost: int = 0) -> ProviderCost:
    return ProviderCost("lab", "training", False, Bill(lines, unknown), 2, finished, lost)


def test_a_weight_that_changes_the_first_place_says_where() -> None:
    swings = (
        WeightSwing("tokens_per_second", 0.4, WeightFlip(0.15, "b"), WeightFlip(0.9, "c")),
        WeightSwing("restart_penalty", 0.2, None, None),
    )
    assert weight_rows(swings) == (
        SwingRow("tokens per second", "40 %", "15 %: b", "90 %: c"),
        SwingRow("restart penalty", "20 %", "none", "none"),
    )
    assert weight_rows(()) == ()


def test_a_weight_near_the_end_never_reads_as_all_or_nothing() -> None:
    (row,) = weight_rows((WeightSwing("goodput", 0.5, WeightFlip(0.004, "b"), WeightFlip(0.996, "c")),))
    assert (row.down, row.up) == ("0.4 %: b", "99.6 %: c")


def test_a_price_is_written_out_whatever_its_size() -> None:
    """Never as 1e+03, and today's never rounded."""
    (row,) = price_rows((PriceSwing("a", 999.64, PriceFlip(0.5, 499.8212, "b"), PriceFlip(9.99, 9986.4036, "c")),))
    assert row == SwingRow("a", "999.64 USD/h", "499.82 USD/h (−50 %): b", "9,986 USD/h (+899 %): c")


def test_a_price_that_changes_the_first_place_is_said_in_money_where_it_is_known() -> None:
    swings = (
        PriceSwing("a", 20.0, None, PriceFlip(1.25, 25.0, "b")),
        PriceSwing("b", None, PriceFlip(0.5, None, "b"), None),
        PriceSwing("c", 30.0, None, None),
    )
    money, factor, none = price_rows(swings)
    assert money.up == "25.00 USD/h (+25 %): b" and factor.down == "× 0.5 (−50 %): b"
    assert none == SwingRow("c", "30.00 USD/h", "none down to 10 %", "none up to 1000 %")


def test_the_nearest_change_is_true(sample: CampaignData) -> None:
    """What the sentence says is what happens: at a little more than the named weight, another provider is first."""
    decided = next(d for d in conclude(sample).decided if d.decision.team == "platform" and d.decision.kind == "training")
    assert nearest_change(decided).startswith(f"{decided.decision.ranking[1].provider} is first if ")
    section = decision_tables(decided)
    assert section.rows[0].provider == "local-2core"
    assert any("local-1core" in row.name for row in section.prices)


def test_without_a_choice_nothing_would_change_it(tmp_path: Path) -> None:
    alone = conclude(campaign(tmp_path / "results", repeats=1, names=("local-1core",)))
    assert {nearest_change(d) for d in alone.decided} == {""}
    assert all(s.weights == () for s in map(decision_tables, alone.decided))


def test_what_nobody_can_judge_is_not_kept_and_says_why(sample: CampaignData) -> None:
    sections = {(s.decision.team, s.decision.kind): s for s in map(decision_tables, conclude(sample).decided)}
    (training,) = sections["platform", "training"].cheapest
    assert [(r.provider, r.meets) for r in training.rows] == [("local-1core", True), ("local-2core", True)]
    (chat,) = sections["product", "inference"].cheapest
    assert not any(r.meets for r in chat.rows)
    assert all(any("error_rate" in m for m in r.why_not) for r in chat.rows)


def test_a_whole_bill_is_no_least() -> None:
    whole = cost(line("gpu", 3), line("idle", 1))
    assert (str(whole.bill.total), str(whole.per_finished_run)) == ("8.00 USD", "4.00 USD")
    assert (whole.bill.complete, unknown_reasons(whole), finished_runs(whole)) == (True, (), "2 of 2 runs finished")


def test_what_is_missing_of_a_bill_is_named_and_the_total_is_a_least() -> None:
    missing = Unknown("storage", "no storage rate is declared for lab")
    partial = cost(line("gpu", 3), unknown=(missing,))
    assert not partial.bill.complete and unknown_reasons(partial) == (f"{missing.item}: {missing.reason}",)


def test_without_a_price_or_a_finished_run_there_is_a_dash_and_no_chart() -> None:
    unpriced, lost = cost(unknown=(Unknown("gpu", "no price is declared for lab"),)), cost(line("failed_launches", 2), finished=0, lost=2)
    for one, why in ((unpriced, "no price is declared for lab"), (lost, "no run finished")):
        assert (format_amount(one.per_finished_run), one.why_not) == ("–", why)
    assert bill_chart([unpriced, lost]) is None


def test_the_chart_stacks_what_the_table_lists(sample: CampaignData) -> None:
    costs = conclude(sample).provider_costs
    chart = bill_chart(costs)
    assert chart is not None
    for one in costs:
        assert one.per_finished_run is not None
        drawn = sum(x for bar in chart.data for name, x in zip(bar["y"], bar["x"], strict=True) if name == one.label and x is not None)
        assert drawn == pytest.approx(one.per_finished_run.amount, rel=1e-4)


def test_scenarios_need_something_declared(sample: CampaignData) -> None:
    trials = conclude(sample).trials
    none = forecast_section(replace(sample, economics=Economics()), trials)
    assert none.reason and none.ranges == ()
    found = forecast_section(sample, trials)
    assert not found.reason
    assert {(r.provider, r.workload) for r in found.ranges} == {(p, w) for p in sample.providers for w in ("gpt-tiny-cpu", "chat-tiny-cpu")}
    assert all("volume" in r.missing for r in found.ranges), "nobody declares a volume for the machine at hand"
    assert len(found.visible) == 2 and found.folded


def test_nothing_usable_has_no_scenario(sample: CampaignData) -> None:
    found = forecast_section(replace(sample, documents=()), ())
    assert found.reason.startswith("No usable trial") and found.ranges == ()


def test_two_precisions_of_one_model_stand_beside_each_other(sample: CampaignData) -> None:
    found = conclude(sample)
    assert campaign_levers(sample, found.trials) == ()

    def coarser(document: ResultDocument) -> ResultDocument:
        """The same trial as one of a twin of its workload, which differs in nothing but name and precision."""
        workload = document.trial.workload
        assert isinstance(workload, TrainingWorkload)
        twin = workload.model_copy(update={"name": "gpt-tiny-coarse", "precision": "bf16"})
        trial = document.trial.model_copy(update={"workload": twin, "trial_id": f"{document.trial.trial_id}.coarse"})
        return document.model_copy(update={"trial": trial})

    own = [d for d in sample.documents if d.trial.workload.kind == "training" and d.validity.status == "valid"]
    both = replace(sample, documents=(*own, *(coarser(d) for d in own)))
    tables = campaign_levers(both, conclude(both).trials)
    assert [t.provider for t in tables] == ["local-1core", "local-2core"]
    assert [r.precision for r in tables[0].rows] == ["fp32", "bf16"]
    assert cost_text(tables[0], tables[0].rows[0]) != "–" and saving_text(tables[0], tables[0].rows[0]) == ""


def test_the_share_of_the_model_that_ran_stands_before_what_the_bare_hardware_does(sample: CampaignData) -> None:
    (training, _) = campaign_rows(sample, conclude(sample).cards)
    assert [(s.provider, s.of_model) for s in training.first_shares] == [("local-1core", True), ("local-2core", True)]
    bare = replace(training, shares=tuple(replace(s, of_model=False) for s in training.shares))
    assert [s.provider for s in bare.first_shares] == ["local-1core", "local-2core"]
    assert replace(training, shares=tuple(replace(s, exact=False) for s in training.shares)).first_shares == ()
