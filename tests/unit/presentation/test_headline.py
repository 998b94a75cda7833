"""A campaign's headline, tiles, choices and actions, as cover and mail show them; and the charts beside them as static pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from tests.browser.sample import campaign
from tests.golden import Golden
from tests.parsed import Parsed

from plumbline.analysis.campaign_data import CampaignData, CampaignHistory, FindingRow, SeriesDrift, sum_monthly
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.analysis.decisions.savings import Savings, answers_of, find_switches, relative_switches, savings_of, switches
from plumbline.analysis.drift.series_state import SeriesState, SeriesStateName
from plumbline.analysis.prices.book import quote
from plumbline.archive import DecisionView
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.formatting import format_money
from plumbline.presentation.charts.static import light_colours, png, svg
from plumbline.presentation.html.mail import check_recipients, write_mail
from plumbline.presentation.html.report import report_context, write_report
from plumbline.presentation.verdicts import ROWS, campaign_name, campaign_verdict, choice_key
from plumbline.words.decision_record import decision_detail, decision_document

CHEAP, FAST = "local-1core", "local-2core"
RENTED = tuple(RentedVolume.model_validate({"provider": name, "time_per_month": "730h"}) for name in (CHEAP, FAST))
PATTERN = (RentedVolume.model_validate({"provider": "*", "time_per_month": "730h"}),)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


def finding(kind: str, **more: object) -> FindingRow:
    return FindingRow(
        **{"finding_id": "f", "series_key": "", "kind": kind, "severity": "warn", "headline": "WARN  x", "state": "open", **more}  # type: ignore[arg-type]
    )


def headline(data: CampaignData, *findings: FindingRow, **history: object) -> str:
    return campaign_verdict(conclude(replace(data, findings=findings, history=CampaignHistory(**history)))).headline  # type: ignore[arg-type]


def test_the_headline_counts_what_moved(sample: CampaignData, golden: Golden) -> None:
    rows = (
        finding("performance", direction="regressed"),
        finding("performance", direction="improved", severity="info"),
        finding("price", effect=0.3),
        finding("reliability", severity="info"),
    )
    said = (headline(sample, *rows), headline(sample, finding("reliability", severity="info")), headline(sample))
    golden("presentation.cover_headlines", "\n".join(said))
    assert campaign_name("try-7") == "try-7"


def test_a_decision_stays_moves_or_has_no_clear_winner(sample: CampaignData) -> None:
    found = conclude(sample)
    decided = found.decided[0]
    first, second = (r.provider for r in decided.decision.ranking[:2])

    def verdict(before: str | None, chance: float = 0.9) -> tuple[str, str, str]:
        ranked = tuple(
            replace(r, probability_first=p) for r, p in zip(decided.decision.ranking, (chance, min(chance, 1 - chance)), strict=True)
        )
        place = decided.preference.model_copy(update={"current": before})
        one = replace(decided, decision=replace(decided.decision, ranking=ranked), preference=place)
        history = CampaignHistory(choices={choice_key(one): second})
        (row,) = campaign_verdict(replace(found, decided=(one,), campaign=replace(sample, history=history))).rows
        return row.verdict, row.provider, row.before

    assert verdict(first) == ("stay", first, "")
    assert verdict(second) == ("move", first, second)
    assert verdict(None) == ("choose", first, ""), "an earlier ranking is no place where a team runs"
    assert verdict(second, 0.49) == ("unclear", f"{first} leads with 49 %", "")


def test_tiles_without_volumes_name_what_to_declare(sample: CampaignData) -> None:
    history = CampaignHistory(open_findings=(finding("performance"),), monthly=sum_monthly([None]))
    first = campaign_verdict(conclude(replace(sample, history=history)))
    lost, saved = first.tiles[1:3]
    assert lost.value == "unknown" and saved.value == "not known", "no team has said where it runs"
    assert "alerts.yaml" in lost.note and "alerts.yaml" in saved.note
    assert any("alerts.yaml" in action.title for action in first.actions)


def test_without_volumes_a_move_from_where_a_team_runs_saves_a_share_of_the_cost(sample: CampaignData) -> None:
    found = conclude(sample)

    def running_at_a_dearer_one(d: TeamDecision) -> TeamDecision:
        dearer = (s.provider for c in d.cheapest for s in c.setups if c.answer and s.cost and s.provider != c.answer.provider)
        place = next(dearer, None)
        return replace(d, preference=d.preference.model_copy(update={"current": place}))

    ranked = {choice_key(d): d.decision.first_name or "" for d in found.decided}
    here = replace(found, campaign=replace(sample, history=CampaignHistory(choices=ranked)))
    assert campaign_verdict(here).tiles[2].value == "not known", "an earlier ranking is no place where a team runs"
    placed = campaign_verdict(replace(here, decided=tuple(running_at_a_dearer_one(d) for d in found.decided)))
    assert re.fullmatch(r"\d+ %", placed.tiles[2].value) and "alerts.yaml" in placed.tiles[2].note
    assert any(action.title.startswith("To save, run ") and "costs " in action.why for action in placed.actions)
    assert {row.before for row in placed.choices if row.verdict == "move"} <= {
        d.preference.current for d in map(running_at_a_dearer_one, found.decided)
    }


def series(baseline: bool, state: SeriesStateName) -> SeriesDrift:
    return SeriesDrift("s", "p", "training", "w", ("2026-10",) if baseline else (), state=SeriesState(state))


@pytest.mark.parametrize(
    ("drift", "says"),
    [
        ([(True, "steady")] * 2, ": nothing changed"),
        ([(False, "cannot_tell")] * 2, ": first measurement, nothing to compare with"),
        ([], ": first measurement, nothing to compare with"),
        ([(True, "steady")] * 3 + [(False, "cannot_tell")] * 3, ": nothing changed in 3 of 6 series, 3 have no baseline yet"),
        ([(True, "cannot_tell")] * 2, ": cannot tell whether anything changed, of 2 series 2 undecided"),
        ([(True, "steady"), (True, "cannot_tell")], ": nothing changed in 1 of 2 series, 1 undecided"),
    ],
)
def test_nothing_changed_is_said_of_what_was_compared_alone(
    sample: CampaignData, drift: list[tuple[bool, SeriesStateName]], says: str
) -> None:
    data = replace(sample, findings=(), drift=tuple(series(*d) for d in drift), history=CampaignHistory())
    verdict = campaign_verdict(conclude(data))
    assert verdict.headline.endswith(says)
    (lost,) = [tile for tile in verdict.tiles if tile.name == "Lost a month"]
    assert (lost.tone == "good") is says.endswith("nothing changed")


def test_losses_and_savings_are_money_a_month(sample: CampaignData) -> None:
    waiting = tuple(finding("performance", direction="regressed", provider=p, usd_per_month=usd, teams=("platform",)) for p, usd in (("a", 120.0), ("b", 30.0), ("c", None), ("d", -50.0)))  # fmt: skip
    found = conclude(
        replace(
            sample, history=CampaignHistory(open_findings=waiting, volumes=RENTED, monthly=sum_monthly(f.usd_per_month for f in waiting))
        )
    )
    first = campaign_verdict(found)
    assert first.tiles[1].value == "150.00 USD", "savings do not pay for losses"
    assert re.findall(r"[\d.]+", first.tiles[1].note)[-2:] == ["50.00", "1"], "saved; findings without an amount"
    moves = switches(found.decided, RENTED)
    assert first.tiles[2].value == format_money(sum(m.usd for m in moves))
    assert [a.usd for a in first.actions] == sorted((a.usd for a in first.actions), reverse=True) and len(first.actions) == 3
    assert {a.owner for a in first.actions} >= {"platform"}


@pytest.mark.parametrize(
    ("first_is", "chance", "says"),
    [("provider", 0.9, "stays first"), ("to", 0.9, ""), ("provider", 0.49, "")],
    ids=["another first choice", "the same first choice", "no clear winner"],
)
def test_a_move_names_the_teams_whose_weights_say_otherwise(sample: CampaignData, first_is: str, chance: float, says: str) -> None:
    found = conclude(replace(sample, history=CampaignHistory(volumes=RENTED)))
    move = switches(found.decided, RENTED)[0]
    decided = []
    for one in found.decided:
        ranked = sorted(one.decision.ranking, key=lambda r: r.provider != getattr(move, first_is))
        chances = (chance, *[min(chance, 1 - chance)] * (len(ranked) - 1))
        ranking = tuple(replace(r, probability_first=p) for r, p in zip(ranked, chances, strict=True))
        decided.append(replace(one, decision=replace(one.decision, ranking=ranking)))
    page = campaign_verdict(replace(found, decided=tuple(decided)))
    (action,) = [a for a in page.actions if a.title.startswith(f"To save, run {move.workload} ")]
    assert ("by the weights of" in action.why) is bool(says)
    assert says in action.why and all(team in action.why for team in move.teams if says)


def test_a_switch_saves_the_difference_of_the_same_work(sample: CampaignData) -> None:
    decided = conclude(sample).decided
    for move in switches(decided, RENTED):
        costs = [{s.provider: s for s in c.setups} for d in decided for c in d.cheapest if c.workload == move.workload]
        least = min(1 - own[move.to].cost / own[move.provider].cost for own in costs)  # type: ignore[operator]
        assert move.saving == pytest.approx(least)
        assert 0 < move.usd <= 730 * 1.0 * move.saving
    assert switches(decided, ()) == ()


def test_a_stored_decision_names_the_same_switch_as_the_report(sample: CampaignData) -> None:
    decided = conclude(sample).decided
    places = {name: p for d in decided for name, p in d.current.providers.items()}

    def price(name: str, purchase: Purchase) -> float | None:
        basis = quote(places[name], decided[0].current.day, purchase).basis
        return None if basis is None else basis.usd_per_hour

    rows = [
        DecisionView("d", d.decision.team, d.decision.kind, None, None, decision_detail(decision_document(d)), sample.written_at)
        for d in decided
    ]
    stored = [a for d in read_decisions(rows) for a in answers_of(d, d.cheapest, price, d.first_name)]
    assert find_switches(stored, RENTED) == switches(decided, RENTED) != ()
    unplaced = [replace(a, current=None) for a in stored]
    assert find_switches(unplaced, PATTERN) and savings_of(unplaced, PATTERN) == Savings((), 0, len(stored)), "a pattern is no place"
    for move in savings_of(stored, PATTERN).moves:
        assert move.usd and move.provider in {a.current for a in stored}, "only from where the team runs"
    for move in relative_switches(stored):
        assert move.saving > 0 and move.usd == 0 and move.provider != move.to


def test_every_chart_of_a_report_is_drawn_small_and_the_same_again(sample: CampaignData) -> None:
    charts = report_context(conclude(sample))["charts"]
    assert len(charts) > 15
    for chart in charts[:4]:
        text = svg(chart)
        assert text == svg(chart) and text.startswith('<svg class="drawn"') and text.endswith("</svg>")
        assert "var(--p0)" in text and "#fe" not in text
    assert png(charts[0], light_colours()).startswith(b"\x89PNG")


def test_fifty_providers_have_the_same_cover_and_short_tables(sample: CampaignData, tmp_path: Path) -> None:
    def copy(i: int) -> list[object]:
        return [
            d.model_copy(update={"trial": d.trial.model_copy(update={"trial_id": f"{d.trial.trial_id}-{i:02d}", "provider": d.trial.provider.model_copy(update={"name": f"{d.trial.provider.name}-{i:02d}"})})})
            for d in sample.documents
        ]  # fmt: skip

    documents = tuple(d for i in range(6) for d in copy(i))
    providers = {d.trial.provider.name: d.trial.provider for d in documents}  # type: ignore[attr-defined]
    many = replace(sample, documents=documents, planned=(), providers=providers, store=None)  # type: ignore[arg-type]
    context = report_context(conclude(many))
    assert len(providers) == 12 and context["excerpt"]
    (table, _, more, hidden), *_ = context["tables"]["training"]
    assert (len(table.cards), len(more.providers), hidden) == (10, 10, 2)
    best = conclude(many).decided
    ranked = next(d.decision.ranking for d in best if table.workload in d.preference.workloads)
    assert [c.provider for c in table.cards] == [r.provider for r in ranked][:10], "ranked over all, then cut"
    assert len(context["page_one"].rows) <= ROWS and len(context["page_one"].tiles) == 4
    page = write_report(many, tmp_path)
    assert list((page.parent / "tables").glob("*.csv"))
    assert len((page.parent / "report.md").read_text()) < 20_000


def test_the_cover_of_a_campaign_on_demand_says_so_with_its_reason(sample: CampaignData, tmp_path: Path) -> None:
    asked = replace(sample, purpose="on_demand", reason="new kernel of the driver")
    report = write_report(asked, tmp_path)
    said = "On demand, requested for this reason: new kernel of the driver. It measured "
    page, mail = Parsed(report.read_text()), write_mail(conclude(asked), report)
    assert page.one("#cover #request").text.startswith(said) and "It is no monthly rerun" in page.one("#request").text
    assert "on demand" in page.texts("#cover .eyebrow span") and said in report.with_name("report.md").read_text()
    html = message_from_bytes(mail.read_bytes(), policy=policy.default).get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert said in html
    assert "requested without a reason" in campaign_verdict(conclude(replace(asked, reason=" "))).request
    assert campaign_verdict(conclude(sample)).request == "" and sample.reason in Parsed(write_report(sample, tmp_path).read_text()).text


def test_the_mail_shows_the_cover_and_brings_the_report(sample: CampaignData, tmp_path: Path) -> None:
    report = write_report(sample, tmp_path)
    file = write_mail(conclude(sample), report, ("vp@example.com",))
    data = file.read_bytes()
    mail = message_from_bytes(data, policy=policy.default)
    assert (mail["Subject"], mail["To"], mail["X-Unsent"]) == (campaign_verdict(conclude(sample)).headline, "vp@example.com", "1")
    html = mail.get_body(("html",)).get_content()  # type: ignore[union-attr]
    pictures = {part["Content-ID"].strip("<>") for part in mail.walk() if part.get_content_type() == "image/png"}
    assert pictures and all(f'src="cid:{name}"' in html for name in pictures)
    assert "<svg" not in html and "<style" not in html, "mail programs drop both"
    assert [a.get_filename() for a in mail.iter_attachments()] == ["report.html"]
    assert write_mail(conclude(sample), report, ("vp@example.com",)).read_bytes() == data
    with pytest.raises(ValueError, match="nobody"):
        check_recipients(["nobody"])
