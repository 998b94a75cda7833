"""`plumbline scorecard` and the end of `plumbline run` at 80 columns: the verdict first, on one screen."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from plumbline.analysis.campaign_data import FindingRow
from plumbline.cli import output, verdict
from plumbline.presentation.tiles import Tile
from plumbline.presentation.verdicts import Bar, CampaignVerdict, ChoiceRow, WorkloadVerdict


def workload(number: int, providers: int) -> WorkloadVerdict:
    bars = tuple(
        Bar(f"provider-{n:02d}", f"{100 + n} ms", f"{99 + n} … {101 + n}", (100 + n) / (100 + providers), n == 0) for n in range(providers)
    )
    return WorkloadVerdict("training", f"workload-{number:02d}", f"workload-{number:02d} v1", "step time", "↓", bars, {})


def campaign(workloads: int, providers: int, findings: int = 0) -> CampaignVerdict:
    rows = tuple(
        FindingRow(
            f"f{n}", "series", "performance", ("page", "warn", "info")[n % 3], f"WARN  finding number {n} {'x' * 90}", "open", "", "2026-10"
        )
        for n in range(findings)
    )
    return CampaignVerdict(
        campaign_id="2026-10",
        headline="October 2026: 1 regression, 1 decision changes",
        tiles=tuple(Tile(name, "1.20 USD", "of 2 providers") for name in ("Spent", "Lost a month", "Could be saved", "Certainty")),
        choices=(
            ChoiceRow("platform", "workload-00", "unclear", "provider-00 leads with 41 %", "", "", ""),
            *(ChoiceRow("product", f"workload-{n:02d}", "stay", "provider-00", "", "91 %", "") for n in range(workloads)),
        ),
        providers=tuple(f"provider-{n:02d}" for n in range(providers)),
        trials={"valid": 12},
        workloads=tuple(workload(n, providers) for n in range(workloads)),
        findings=rows,
        series={"drifted": 1, "moved": 2, "steady": 17},
        criteria={"pass": 8, "fail": 1},
    )


@pytest.fixture
def show(monkeypatch):
    made = output._Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(verdict, "out", made)

    def call(shown: CampaignVerdict, **options) -> list[str]:
        made.file.seek(0)
        made.file.truncate()
        verdict.show_verdict(shown, **options)
        return [line.rstrip() for line in made.file.getvalue().splitlines()]

    return call


@pytest.mark.parametrize(("workloads", "providers", "findings"), [(2, 2, 0), (4, 3, 9), (20, 50, 30), (1, 50, 0)])
def test_it_fits_one_screen(show, workloads, providers, findings):
    lines = show(campaign(workloads, providers, findings), most=5 if workloads < 10 else 10)
    assert all(cell_len(line) <= 80 for line in lines)
    assert len(lines) <= (52 if workloads == 20 else 40)


def test_ten_of_fifty_are_shown_and_where_the_rest_is(show):
    lines = show(campaign(1, 50))
    assert sum("█" in line for line in lines) == 10
    assert any("40" in line and "--all" in line for line in lines)
    assert sum("█" in line for line in show(campaign(1, 50), everything=True)) == 50


def test_the_best_comes_first_and_an_unclear_choice_is_named(show):
    lines = show(campaign(1, 3))
    bars = [line for line in lines if "█" in line]
    assert bars[0].split()[0] == "provider-00"
    assert "no clear winner, provider-00 leads with 41 %" in " ".join(" ".join(lines).split())


def test_the_headline_comes_first_and_choices_are_cut(show):
    lines = show(campaign(9, 3))
    assert lines[0] == "October 2026: 1 regression, 1 decision changes"
    assert sum("stay with provider-00, 91 % sure" in line for line in lines) == 4 and any("5 × stay" in line for line in lines)
    assert sum("stay with provider-00, 91 % sure" in line for line in show(campaign(9, 3), everything=True)) == 9


def test_findings_have_a_symbol_and_one_line_each(show):
    lines = show(campaign(1, 2, 6))
    assert [line.split()[0] for line in lines if "finding number" in line] == ["✖", "▲", "●", "✖"]
    assert any("2" in line and "plumbline findings" in line for line in lines)
