"""`plumbline findings`."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from plumbline import workflows
from plumbline.answers.claim_marks import WORDS as CLAIM_WORDS
from plumbline.answers.claim_marks import ClaimState
from plumbline.answers.compared_series import compared_series
from plumbline.archive import FindingView
from plumbline.cli.declared import known_provider
from plumbline.cli.exit_status import BROKEN, FAILED, OK
from plumbline.cli.output import SEVERITY_STYLES, Json, beside, clear_errors, completed, emit, marked, out, read_archive
from plumbline.declarations import DeclarationError, Declarations, load
from plumbline.findings.compared import Compared
from plumbline.findings.headline import one_per_headline
from plumbline.metrics.formatting import capitalize_first, format_count, format_money
from plumbline.presentation.findings_inbox import count_severities, group_findings, inbox_view
from plumbline.results import InvalidResult
from plumbline.results.finding import OPEN_STATES, SYMBOLS, FindingState, gravity
from plumbline.results.stored import read_finding

findings = typer.Typer(help="List, show and answer findings: what drifted, and what was decided about it.", no_args_is_help=False)
FindingId = Annotated[str, typer.Argument(help="its id, or how that begins", callback=completed("finding"))]
Why = Annotated[str, typer.Option(help="the reason, for the audit log")]


Settled = Annotated[bool, typer.Option("--all", help="also the settled ones")]
Of = Annotated[str | None, typer.Option("--provider", help="of this provider, and the causes that it shares with others")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="every finding, with its cause and the commands that answer it")]
_MOST = 10


@findings.callback(invoke_without_command=True)
def listed(context: typer.Context, settled: Settled = False, provider: Of = None, verbose: Verbose = False, as_json: Json = False) -> None:
    """List the open findings, most severe first."""
    if context.invoked_subcommand is None:
        list_findings(settled, provider, verbose, as_json)


@findings.command("list")
def list_findings(settled: Settled = False, provider: Of = None, verbose: Verbose = False, as_json: Json = False) -> None:
    """List the open findings, most severe first."""
    with read_archive(listing=True, as_json=as_json) as archive:
        # By state: an old archive has far more settled findings than open ones.
        views = archive.findings(None if settled else OPEN_STATES)
        declared = _declared()
        if provider is not None:
            known_provider(provider, declared, archive)
            views = [view for view in views if provider in view.providers]
        compared = Compared(0, 0) if views else compared_series(archive, provider)
        from plumbline.answers.costed_findings import costed_findings  # with statistics, which an empty list does not wait for
        from plumbline.answers.ledger import read_ledger

        entries = costed_findings(archive, declared, views) if declared else {}
        ledger = read_ledger(archive, declared, entries.values(), names=None if provider is None else [provider])
    from plumbline.presentation.ledger_words import unclaimed_text
    from plumbline.presentation.tiles import money_sentences

    views.sort(key=lambda f: f.opened_at, reverse=True)
    found = inbox_view(
        group_findings(views, {name: entry.cost for name, entry in entries.items()}, ledger),
        ledger,
    )
    lines = {view.finding_id: view.headline for view in found["findings"]}
    views = [replace(view, headline=lines[view.finding_id]) for view in views]

    unclaimed = unclaimed_text(ledger)

    def show() -> None:
        if not views:
            out.print(f"no findings{compared.limit}" if settled else f"no open findings{compared.limit} (--all shows the settled ones)")
        else:
            show_stories()
        if unclaimed:
            out.print(f"No open finding claims: {unclaimed}. plumbline promises lists what breaks them.")

    def show_stories() -> None:
        graded = sorted(views, key=lambda f: gravity(f.severity))
        out.print(marked("[bold]{}[/]: {}", format_count(len(views), "finding" if settled else "open finding"), count_severities(views)))
        stories = list(one_per_headline((f.headline, f) for f in graded).values())
        for story in stories if verbose else stories[:_MOST]:
            _show_story(story, verbose)
        if not verbose:
            more = f"{len(stories) - _MOST} more, causes and commands" if len(stories) > _MOST else "causes and commands"
            out.print(f"{more}: -v, or plumbline findings show ID", style="dim")
        for text in money_sentences(ledger.total()):
            out.print(f"{capitalize_first(text)}.")

    emit(as_json, found, show)


def _declared() -> Declarations | None:
    """None if they cannot be read: findings are listed all the same, without money."""
    try:
        return load()
    except DeclarationError:
        return None


def _show_story(story: Sequence[FindingView], verbose: bool) -> None:
    """The findings of one headline."""
    view = story[0]
    readable = read_finding(view)
    began = view.campaign_id or (readable.began if readable else f"{view.opened_at:%Y-%m-%d}")
    mark = "SIMULATED " if readable and readable.simulated else ""
    beside(
        Text(f"{SYMBOLS[view.severity]} {view.severity:<4} ", SEVERITY_STYLES[view.severity]),
        Text.assemble((mark, "yellow"), view.headline),
    )
    ids = ", ".join(one.finding_id for one in story)
    beside(Text(" " * 7), marked("[dim]{} · {}{} · since {}[/]", ids, view.state, _snoozed(view), began))
    if verbose:
        for text in (readable.evidence, readable.explanation) if readable else ("cannot be read in full: stored by another version",):
            if text:
                beside(Text(" " * 7), Text(text))


def _snoozed(finding: FindingView) -> str:
    until = finding.snoozed_until
    return f", snoozed until {until:%Y-%m-%d %H:%M} UTC" if until is not None and until > datetime.now(timezone.utc) else ""


@findings.command()
def show(finding_id: FindingId, as_json: Json = False) -> None:
    """Show one finding in full, with its members and history."""
    # With statistics, which a list of findings does not wait for.
    from plumbline.alerts import AlertContext, render
    from plumbline.presentation.finding_page import finding_page

    with clear_errors(LookupError), read_archive() as archive:
        page = finding_page(archive, _declared(), finding_id, datetime.now(timezone.utc))

    def tell() -> None:
        finding = read_finding(page.view)
        text = (
            render(finding, AlertContext(usd=page.headline_usd, credit=page.credit, claim=page.claim_text)).text
            if finding
            else f"{page.words}\n      cannot be read in full: stored by another version (--json shows it)"
        )
        out.print(text)
        if page.counted:
            out.print(f"      ledger: {page.counted}")
        if page.mark is not None:
            out.print(f"      {page.mark.text}")
        for entry in page.audit:
            out.print(f"  {entry.at:%Y-%m-%d %H:%M} UTC  {entry.who}: {entry.what}  {entry.why}", style="dim")

    emit(as_json, page.as_json(), tell)


@findings.command()
def acknowledge(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Acknowledge a finding: it has an owner, reminders stop."""
    _set_state(finding_id, "acknowledged", why, f"{finding_id} is acknowledged", as_json)


@findings.command()
def snooze(
    finding_id: FindingId,
    until: Annotated[
        str, typer.Option(help="a day (2026-12-01, from its first minute UTC), an instant, a time from now (14d), or now to end it")
    ],
    why: Why,
    as_json: Json = False,
) -> None:
    """Pause the messages and reminders of a finding until then, unless it becomes more severe."""
    with clear_errors(ValueError):
        end = workflows.finding_action.snooze_end(until, datetime.now(timezone.utc))
    with clear_errors(LookupError, ValueError), read_archive() as archive:
        view = archive.snooze_finding(finding_id, end, by=getpass.getuser(), why=why)
    text = (
        f"{finding_id} is snoozed until {view.snoozed_until:%Y-%m-%d %H:%M} UTC" if view.snoozed_until else f"{finding_id} is not snoozed"
    )
    emit(as_json, view, lambda: out.print(text))


@findings.command()
def resolve(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Resolve a finding: fixed, or a false alarm. The baseline stays."""
    _set_state(finding_id, "resolved", why, f"{finding_id} is resolved; the baseline stays", as_json)


@findings.command()
def accept(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Accept the change as the new baseline of its series, as the price in use, or as the first choice."""
    done = _decided(finding_id, "accept", why)
    baselines = ", ".join(sorted(set(done.baselines.values())))
    effect = f"the baseline of {len(done.baselines)} series is {baselines} now" if done.baselines else "no campaign has measured it yet"
    if done.choice:
        effect = "the team switches"
    if done.log:
        effect = "promises are judged by the operations log (plumbline promises)"
    if done.price is not None:
        effect = f"the instance costs {format_money(done.price, 'USD/h')} now"
    line = _repeated(finding_id, "accepted") if done.repeated else f"{finding_id} is accepted; {effect}"
    emit(as_json, done, lambda: out.print(line))


@findings.command()
def reject(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Reject the change: the baseline stays, and the finding stays acknowledged until the provider recovers."""
    done = _decided(finding_id, "keep", why)
    emit(as_json, done, lambda: out.print(f"{finding_id} is acknowledged; the baseline stays"))


@findings.command()
def reopen(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Open an accepted finding again: the baseline that it replaced is restored."""
    with clear_errors(LookupError, ValueError), read_archive() as archive:
        restored = workflows.baseline_decision.reopen(archive, finding_id, getpass.getuser(), why)
    names = ", ".join(sorted({campaign for campaigns in restored.values() for campaign in campaigns}))
    effect = f"the baseline of {len(restored)} series is {names} again" if restored else "no baseline rested on it"
    emit(as_json, {"finding_id": finding_id, "baselines": restored}, lambda: out.print(f"{finding_id} is open; {effect}"))


@findings.command()
def claim(
    finding_id: FindingId,
    folder: Annotated[Path | None, typer.Argument(help="a new folder; default: claim-<id>")] = None,
    to: Annotated[str, typer.Option(help="the recipient; sla.contact of the provider if left out")] = "",
    as_json: Json = False,
) -> None:
    """Write the mail that claims a service credit: promise, measurement, evidence, clause. Exit code 1 if no promise is proven broken, 4 if evidence
    does not hold."""
    target = folder or Path(f"claim-{finding_id}")
    with clear_errors(LookupError, DeclarationError, ValueError, InvalidResult, OSError), read_archive() as archive:
        try:
            done = workflows.claim.write_claim(archive, load(), finding_id, target, to)
        except workflows.claim.NothingToClaim as nothing:
            why = str(nothing)
            emit(as_json, {"finding_id": finding_id, "claim": None, "why": why}, lambda: out.print(f"nothing to claim. {why}"))
            raise typer.Exit(FAILED) from nothing

    def show() -> None:
        for problem in done.pack.problems:
            out.print(problem, style="red")
        out.print(f"{done.mail}: {done.subject}")
        out.print(
            f"{done.pack.file}: {done.pack.trials} attempts, {done.pack.signed} of them signed{'' if done.attached else '; too large for the mail'}"
        )
        for text in done.missing:
            out.print(f"not declared: {text}", style="yellow")

    emit(as_json, done, show)
    raise typer.Exit(BROKEN if done.pack.problems else OK)


@findings.command()
def claimed(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Mark a claim as sent: its finding has an owner, and its credit is not to claim any more."""
    _mark_claim(finding_id, "claimed", why, as_json)


@findings.command()
def credited(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Mark a claim as credited; its finding is resolved."""
    _mark_claim(finding_id, "credited", why, as_json)


@findings.command()
def refused(finding_id: FindingId, why: Why, as_json: Json = False) -> None:
    """Mark a claim as refused by the provider; its finding is resolved."""
    _mark_claim(finding_id, "refused", why, as_json)


def _mark_claim(finding_id: str, state: ClaimState, why: str, as_json: bool) -> None:
    with clear_errors(LookupError, DeclarationError, ValueError), read_archive() as archive:
        view = workflows.claim_mark.mark_claim(archive, load(), finding_id, state, getpass.getuser(), why)
    emit(as_json, view, lambda: out.print(f"{finding_id}: {CLAIM_WORDS[state]}; the finding is {view.state}"))


def _set_state(finding_id: str, state: FindingState, why: str, line: str, as_json: bool) -> None:
    with clear_errors(LookupError, ValueError), read_archive() as archive:
        before = archive.finding(finding_id).state
        view = archive.set_finding_state(finding_id, state, by=getpass.getuser(), why=why)
    emit(as_json, view, lambda: out.print(_repeated(finding_id, state) if before == state else line))


def _repeated(finding_id: str, state: FindingState) -> str:
    return f"{finding_id} was {state} before, so this reason was not kept; plumbline findings show {finding_id} prints the first one"


def _decided(finding_id: str, answer: workflows.baseline_decision.Answer, why: str) -> workflows.baseline_decision.AppliedAnswer:
    with clear_errors(LookupError, DeclarationError, ValueError, workflows.decide.DecisionsLocked), read_archive() as archive:
        return workflows.baseline_decision.apply_answer(archive, load(), finding_id, answer, getpass.getuser(), why)
