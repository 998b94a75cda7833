"""`plumbline scorecard` and the end of `plumbline run` at 80 columns: the verdict first, on one screen."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from plumbline.analysis.campaign_data import FindingRow
from plumbline.cli import output, verdict
from plumbline.presentation.verdicts import Bar, CampaignVerdict, WorkloadVerdict


def workload(number: int, providers: int) -> WorkloadVerdict:
    bars = tuple(
        Bar(f"provider-{n:02d}", f"{100 + n} ms", f"{99 + n} … {101 + n}", (100 + n) / (100 + providers), n == 0) for n in range(providers)
    )
    choice = ("platform: no clear winner among 9: provider-00 is first with 41 %",)
    return WorkloadVerdict("training", f"workload-{number:02d}", f"workload-{number:02d} v1", "step time", "↓", bars, choice, True, {})


def campaign(workloads: int, providers: int, findings: int = 0) -> CampaignVerdict:
    rows = tuple(
        FindingRow(
            f"f{n}", "series", "performance", ("page", "warn", "info")[n % 3], f"WARN  finding number {n} {'x' * 90}", "open", "", "2026-10"
        )
        for n in range(findings)
    )
    return CampaignVerdict(
        "2026-10", "monthly", False, tuple(f"provider-{n:02d}" for n in range(providers)), {"valid": 12},
        tuple(workload(n, providers) for n in range(workloads)), rows, {"drifted": 1, "moved": 2, "steady": 17}, {"pass": 8, "fail": 1},
        ("training 1.20 USD: provider-00 0.60, provider-01 0.60",),
    )  # fmt: skip


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
    assert len(lines) <= (52 if workloads == 20 else 36)


def test_ten_of_fifty_are_shown_and_where_the_rest_is(show):
    lines = show(campaign(1, 50))
    assert sum("█" in line for line in lines) == 10
    assert any("40" in line and "--all" in line for line in lines)
    assert sum("█" in line for line in show(campaign(1, 50), everything=True)) == 50


def test_the_best_comes_first_and_an_unclear_choice_is_named(show):
    lines = show(campaign(1, 3))
    bars = [line for line in lines if "█" in line]
    assert bars[0].split()[0] == "provider-00"
    assert any("no clear winner among 9" in line for line in lines)


def test_findings_have_a_symbol_and_one_line_each(show):
    lines = show(campaign(1, 2, 6))
    assert [line.split()[0] for line in lines if "finding number" in line] == ["✖", "▲", "●", "✖"]
    assert any("2" in line and "plumbline findings" in line for line in lines)
