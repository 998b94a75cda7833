"""Write a campaign's scorecards, decisions and report from the archive."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality, SeriesDrift
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.analysis.decisions.decision import Choice, Decision
from plumbline.analysis.decisions.winner_change import StoredChange
from plumbline.analysis.document_sample import began_on
from plumbline.analysis.drift.series_state import state_of
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.answers.baseline_comparison import compare_with_baselines, series_by_provider
from plumbline.answers.campaign_history import campaign_history, finding_row
from plumbline.answers.commitments import contract_commitments
from plumbline.answers.current_results import decide_teams
from plumbline.answers.places import with_places
from plumbline.answers.promises import broken_promises
from plumbline.answers.relative_criteria import resolve_criteria
from plumbline.answers.service_record import service_records
from plumbline.answers.winner_change import team_winner_change
from plumbline.archive import Archive, open_archive
from plumbline.archive.pages import MAX_SEARCHED_FINDINGS
from plumbline.archive.shelves import shelf
from plumbline.declarations import installation_paths, load_in_force
from plumbline.declarations.purposes import purpose_of
from plumbline.presentation.commitments import commitment_table
from plumbline.presentation.html import report as html_report
from plumbline.presentation.html.mail import check_recipients, write_mail
from plumbline.presentation.series_summary import series_of_shared_causes
from plumbline.presentation.tables import TableFormat
from plumbline.results import ResultStore
from plumbline.words.drift import left_out_text
from plumbline.workflows.acceptances import winner_nodes


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Without the collector of reference cycles: a large campaign has millions of objects that stay until its report is written, and the
    collector would look at them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class WrittenReport:
    """Paths of a report's files, or their URLs in the result store; None where one was not asked for. `tables`: a folder."""

    report: str
    tables: str | None = None
    mail: str | None = None


def write_report(campaign_id: str | None = None, forms: Sequence[TableFormat] = ()) -> str:
    """Write the campaign's report (default: the newest campaign); path or URL of the HTML file. LookupError without a campaign.

    `forms`: formats of the tables that go into `tables/` beside the report.
    """
    return write_files(campaign_id, forms).report


@garbage_collection_paused()
def write_files(
    campaign_id: str | None = None, forms: Sequence[TableFormat] = (), *, mail: bool = False, to: Sequence[str] = ()
) -> WrittenReport:
    """`write_report`, and the same as a mail to these recipients. ValueError for a recipient that is no address."""
    check_recipients(to)
    with open_archive() as archive:
        conclusions = conclude(campaign_data(archive, campaign_id or newest_campaign(archive)))
        today = _decisions_today(archive, conclusions) if conclusions.decided else {}
        broken = broken_promises(archive, load_in_force(), conclusions.campaign.providers)
        firsts = {name for d in conclusions.decisions if (name := d.first_name) is not None}
        nodes = {name: found for name in sorted(firsts) if (found := winner_nodes(archive, load_in_force(), name)) is not None}
        conclusions = replace(conclusions, winner_changes=dict(_winner_changes(archive, conclusions)), today=today)
    name, reports = conclusions.campaign.campaign_id, shelf("reports")
    with reports.writing(name) as folder:
        page = html_report.write_concluded(conclusions, folder.parent, forms, broken, nodes)
        letter = write_mail(conclusions, page, to) if mail else None
    return WrittenReport(
        report=(address := reports.address(name, page.name)),
        tables=f"{address.removesuffix(page.name)}tables" if forms else None,
        mail=None if letter is None else reports.address(name, letter.name),
    )


def newest_campaign(archive: Archive) -> str:
    """The campaign that was planned last; LookupError without one that ran here."""
    newest = archive.newest_campaign()
    if newest is None:
        raise LookupError("the archive has no campaign yet; measure a first one: plumbline run")
    return newest


def campaign_data(archive: Archive, campaign_id: str) -> CampaignData:
    """The data of a campaign's report and scorecards. LookupError if the archive has none."""
    declared, head = load_in_force(), archive.campaign_head(campaign_id)
    if head is not None and head.purpose == "acceptance":
        raise LookupError(f"{campaign_id} is an acceptance: it judges nodes, not providers; `plumbline accept PROVIDER --last` shows them")
    # A correction is the same run: it must not count twice.
    trials = [t for t in archive.trials(campaign_id) if not t.corrected]
    if not trials:
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}"')
    if all(t.source == "imported" for t in trials):
        raise LookupError(f'"{campaign_id}" has imported results only, which are not scored; `plumbline compare` compares them')
    stored = archive.documents(campaign_id)
    documents = [d for t in trials if (d := stored.get((t.trial_id, t.attempt))) is not None]
    workloads = {d.trial.series_key: d.trial.workload for d in documents}
    drift: list[SeriesDrift] = []
    covered = series_of_shared_causes(archive.findings_shown_by(campaign_id, MAX_SEARCHED_FINDINGS))
    for provider, own in series_by_provider(dict(sorted(workloads.items()))).items():
        for c in compare_with_baselines(archive, declared, campaign_id, provider, own, judged_only=True):
            workload, verdicts = own[c.series_key], Counter(str(row.verdict) for row in c.rows if row.verdict is not None)
            begins = _compared_with_itself(archive, c.series_key, campaign_id)
            note = begins or "; ".join(filter(None, (*c.problems, left_out_text(c))))
            state = state_of(c)
            if c.series_key in covered:  # by a shared cause, although its own repeats are too few
                state = replace(state, state="drifted")
            drift.append(
                SeriesDrift(c.series_key, provider, workload.kind, workload.name, c.baseline_campaigns, dict(verdicts), note, state)
            )
    providers = all_with_effective_prices(
        # Providers that are not declared any more: as they were when measured.
        (declared.providers.get(d.trial.provider.name, d.trial.provider) for d in documents),
        archive.prices(sorted({d.trial.provider.name for d in documents})),
    )
    history, between = campaign_history(archive, declared, campaign_id)
    known = {row.finding_id: row for row in history.open_findings}
    shown = [known.get(f.finding_id) or finding_row(f) for f in archive.findings(campaign_id=campaign_id)]
    return CampaignData(
        campaign_id=campaign_id,
        reason=documents[0].trial.reason,
        documents=tuple(documents),
        providers=providers,
        teams=with_places(archive, declared).teams,
        written_at=datetime.now(timezone.utc),
        findings=(*shown, *between),
        drift=tuple(drift),
        quality={
            (t.trial_id, t.attempt): CampaignQuality(t.quality_action, tuple(f"{r.code}: {r.detail}" for r in t.quality_reasons))
            for t in trials
        },
        store=ResultStore(installation_paths().results_url),
        workloads=declared.workloads,
        references=declared.references,
        economics=declared.economics,
        retention_s=declared.upkeep.evidence.keep,
        imported=tuple(archive.imported_files(*sorted({w.name for w in workloads.values() if w.kind == "inference"}))),
        commitments=commitment_table(
            contract_commitments(archive, declared, datetime.now(timezone.utc), {d.trial.provider.name for d in documents})
        ),
        resolved={key: resolve_criteria(archive, key, campaign_id, workload) for key, workload in workloads.items()},
        history=history,
        service=service_records(archive, providers, filter(None, map(began_on, documents))),
        purpose=head.purpose if head is not None else purpose_of(campaign_id, "any"),
    )


def _winner_changes(archive: Archive, conclusions: Conclusions) -> Iterator[tuple[Choice, StoredChange]]:
    for decision in conclusions.decisions:
        if (last := team_winner_change(archive, decision.team, decision.kind, decision.workloads)) is not None:
            yield decision.choice, last


def _decisions_today(archive: Archive, conclusions: Conclusions) -> dict[Choice, Decision]:
    decided = decide_teams(archive, load_in_force(), conclusions.day, purchase=conclusions.campaign.purchase)
    return {d.decision.choice: d.decision for d in decided if d.decision.ranking}


def _compared_with_itself(archive: Archive, series_key: str, campaign_id: str) -> str | None:
    """The note for a campaign with which the series' baseline begins."""
    current = [b for b in archive.baseline_history(series_key) if b.superseded_at is None]
    if not current or current[0].campaign_id != campaign_id:
        return None
    if current[0].rule == "bootstrap":
        return "this campaign is the series' first baseline"
    return f"{current[0].accepted_by} accepted this campaign as the baseline"
