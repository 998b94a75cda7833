"""The monthly digest: open findings ranked by cost, what happened in the month, sums by provider and team; posted once a month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from functools import cached_property

from slack_sdk.models.blocks import Block, ContextBlock, HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock

from plumbline.alerts.channel import OPENED, AlertChannel
from plumbline.alerts.message import HEADER_LIMIT, SECTION_LIMIT, TEXT_LIMIT, Message
from plumbline.alerts.slack.mrkdwn import escape, truncate
from plumbline.alerts.thread import POSTING, Thread
from plumbline.answers.costed_findings import CostedFinding
from plumbline.answers.ledger import Ledger, LedgerRow, ledger_of
from plumbline.answers.trial_credits import TrialCredit
from plumbline.archive import Archive, IncidentRecord
from plumbline.findings.compared import Compared
from plumbline.findings.headline import headline, one_per_headline
from plumbline.metrics.formatting import first_lines, format_count, format_monthly, format_name, join_words
from plumbline.presentation.events.event import Looked, StreamEvent
from plumbline.presentation.events.stream import count_events
from plumbline.presentation.tiles import lost_tile
from plumbline.results.finding import SYMBOLS, gravity

_MOST_OPEN, _MOST_SUMS, _MOST_CHANGED = 8, 6, 6
_LINE_LIMIT = 250
_LIST_LIMIT = 3000
"""Characters that Slack takes in one section."""


@dataclass(frozen=True)
class Digest:
    """A month (`2026-11`) as of the day `on`: findings that are open then, and the events of the month.

    `simulated`: a rehearsal, of simulated findings alone; else of measured ones alone. `compared`: how many series were compared with a
    baseline: of others that nothing is open says nothing. None where it is not asked. `covered`: findings that the line of their cause
    shows; the ledger counts them there. `events`: what happened in the month, newest first; `looked`: what
    was watched for it. `credits`: that trials prove.
    """

    month: str
    on: date
    entries: tuple[CostedFinding, ...]
    simulated: bool = False
    compared: Compared | None = None
    covered: frozenset[str] = frozenset()
    events: tuple[StreamEvent, ...] = ()
    looked: tuple[Looked, ...] = ()
    credits: tuple[TrialCredit, ...] = ()

    @cached_property
    def ledger(self) -> Ledger:
        """What the open findings cost and save."""
        entries = (e for e in self.entries if e.settled is None and e.finding.simulated == self.simulated)
        return ledger_of(entries, credits=(c for c in self.credits if c.simulated == self.simulated))

    @property
    def left_out(self) -> int:
        """Open findings of the other sort."""
        return sum(e.settled is None and e.finding.simulated != self.simulated for e in self._shown)

    @property
    def _shown(self) -> list[CostedFinding]:
        return [e for e in self.entries if e.finding.finding_id not in self.covered]

    def waiting(self) -> list[CostedFinding]:
        """Open and acknowledged findings by cost, highest first; then by severity and age."""
        entries = [e for e in self._shown if e.settled is None and e.finding.simulated == self.simulated]
        rows = self.ledger.by_id
        amounts = {e.finding.finding_id: abs(row.usd or 0.0) if (row := rows.get(e.finding.finding_id)) else 0.0 for e in entries}
        return sorted(entries, key=lambda e: (-amounts[e.finding.finding_id], gravity(e.finding.severity), e.opened, e.finding.finding_id))

    def happened(self) -> list[StreamEvent]:
        """The month's events of simulated or of measured things, as the findings are."""
        return [event for event in self.events if event.simulated == self.simulated]


def render_digest(digest: Digest) -> Message:
    """The month's message, at most five blocks. Deterministic."""
    ledger = digest.ledger
    lines_of = (
        (headline(e.finding, ledger.headline_usd(e.finding.finding_id, e.cost.usd), e.cost.credit, e.cost.claim), e)
        for e in digest.waiting()
    )
    stories = list(one_per_headline(lines_of).items())
    every = [_line(i, what, entries, digest.on, ledger) for i, (what, entries) in enumerate(stories, 1)]
    lines = first_lines(every, _MOST_OPEN, "… and {} more: `plumbline findings`")
    by_provider = _sums(ledger.monthly, lambda row: row.parts or tuple((name, None) for name in row.providers))
    by_team = _sums(ledger.monthly, lambda row: tuple((team, row.usd) for team in row.owner))
    shared = ", what several share in each" if any(len(row.owner) > 1 for row in ledger.monthly) else ""
    sums = [f"*{name}*\n" + "\n".join(lines) for name, lines in (("By provider", by_provider), (f"By team{shared}", by_team)) if lines]
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=truncate(_title(digest), HEADER_LIMIT))),
        _section("\n".join([_total(digest), *lines]), _LIST_LIMIT),
        *([SectionBlock(fields=[MarkdownTextObject(text=truncate(s, SECTION_LIMIT)) for s in sums])] if sums else []),
        _section("\n".join(_changes(digest))),
        ContextBlock(elements=[MarkdownTextObject(text=truncate(escape(_footer(digest)), SECTION_LIMIT))]),
    ]
    plain = [_title(digest), _total(digest), *lines, *sums, *_changes(digest), _footer(digest)]
    text = "\n".join(line.replace("*", "").replace("`", "") for line in plain)
    return Message(truncate(text, TEXT_LIMIT), tuple(block.to_dict() for block in blocks), _title(digest))


def _title(digest: Digest) -> str:
    waiting, blind = digest.waiting(), digest.compared is not None and not digest.compared.n
    what = "nothing compared yet" if blind and not waiting else format_count(len(waiting), "open finding")
    return f"{'SIMULATED ' if digest.simulated else ''}Plumbline {digest.month}: {what}"


def _total(digest: Digest) -> str:
    waiting = digest.waiting()
    if not waiting and digest.compared is not None and not digest.compared.n:
        return "Nothing was compared with a baseline yet: whether anything changed is not known."
    lost = lost_tile(digest.ledger.total(digest.simulated))
    return (
        f"{lost.name}: *{lost.value}*, {lost.note}."
        if waiting or digest.ledger.rows
        else f"No open findings{digest.compared.limit if digest.compared else ''}."
    )


def _line(place: int, what: str, entries: Sequence[CostedFinding], on: date, ledger: Ledger) -> str:
    entry, finding = entries[0], entries[0].finding
    ids = ", ".join(f"`{e.finding.finding_id}`" for e in entries[:3])
    age = f"open {format_count((on - entry.opened).days, 'day')}"
    state = " (acknowledged)" if finding.state == "acknowledged" else ""
    row = ledger.row_with(finding.finding_id)
    part = f", in the amount of `{row.row_id}`" if row is not None and not any(e.finding.finding_id == row.row_id for e in entries) else ""
    return f"{place}. {SYMBOLS[finding.severity]} {truncate(escape(what), _LINE_LIMIT)}{part}{state}, {age}  {ids}"


def _sums(rows: Iterable[LedgerRow], parts: Callable[[LedgerRow], Iterable[tuple[str, float | None]]]) -> list[str]:
    """One line for each name, highest cost first: total cost and number of findings; what others save in a line of its own. `parts`: USD of a
    row by name."""
    groups: dict[tuple[str, bool], list[float | None]] = defaultdict(list)
    for row in rows:
        for name, usd in parts(row):
            groups[name, row.sort == "gain"].append(usd)
    sums = []
    for (name, saves), own in groups.items():
        known = [usd for usd in own if usd is not None]
        usd = -sum(known) if saves else sum(known)
        unknown = f", {len(own) - len(known)} without a price" if known and len(known) < len(own) else ""
        money = format_monthly(usd) if known else "cost unknown"
        sums.append((saves, -abs(usd), name, f"{escape(name)}: {money} ({format_count(len(own), 'finding')}{unknown})"))
    return first_lines([line for *_, line in sorted(sums)], _MOST_SUMS, "… and {} more")


def _changes(digest: Digest) -> list[str]:
    events = digest.happened()
    # What is open is listed above, and that a campaign began says no more than how it ended.
    listed = [event for event in events if (event.kind, event.what) not in _COUNTED_ONLY]
    lines = [f"• {event.at:%d %b} {event.kind} {format_name(event.what)}: {_event_line(event)}" for event in listed]
    shown = first_lines(lines, _MOST_CHANGED, f"… and {{}} more: `plumbline status --since {digest.month}-01`")
    never = [looked.what for looked in digest.looked if looked.last is None]
    nothing = f"nothing{f'; never looked at: {join_words(never)}' if never else ' in what was watched'}"
    return [f"*What happened in {digest.month}*: {count_events(events) or nothing}", *shown]


_COUNTED_ONLY = {("finding", "opened"), ("finding", "worsened"), ("campaign", "began")}


def _event_line(event: StreamEvent) -> str:
    goes_on = f", {format_monthly(event.usd)} from now on" if event.usd is not None and event.what == "accepted" else ""
    by = f" ({event.who})" if event.who else ""
    return f"{truncate(escape(event.text), _LINE_LIMIT)}{goes_on}{escape(by)}"


def _footer(digest: Digest) -> str:
    other = "measured" if digest.simulated else "simulated"
    apart = f" · {format_count(digest.left_out, 'finding')} of {other} providers not counted" if digest.left_out else ""
    mark = "SIMULATED: no real machine was measured · " if digest.simulated else ""
    return f"{mark}digest of {digest.month}, as of {digest.on:%Y-%m-%d} · costs at declared volumes and accepted prices, else at the prices declared when a finding opened{apart}"


def _section(text: str, limit: int = SECTION_LIMIT) -> SectionBlock:
    return SectionBlock(text=MarkdownTextObject(text=truncate(text, limit)))


_BEGUN, _SENT, _BY = "digest_begun", "digest_sent", "digest"
"""In the audit log: a post was begun, and may have arrived; a message with its id and content."""


def post_digest(month: str, message: Message, archive: Archive, name: str, channel: AlertChannel) -> str:
    """Post the month's digest to the channel `name`, or update the one that is there: `posted`, `updated` or `unchanged`. Idempotent. ChannelError
    if it is not delivered."""
    subject = f"digest/{month}/{name}"
    last = next(reversed(archive.audit(subject)), None)

    def save(note: IncidentRecord) -> None:
        if (what := _SENT if note.message_hash else _BEGUN if note.state == POSTING and not note.ts else None) is not None:
            detail = {"ts": note.ts, "digest": note.message_hash}
            archive.add_audit(who=_BY, what=what, subject=subject, why=f"digest of {month}", detail=detail)

    note = IncidentRecord(month, name, "", "", "")
    if last is not None and last.what == _SENT:
        note = replace(note, ts=last.detail["ts"], message_hash=last.detail["digest"])
    elif last is not None:
        note = replace(note, state=POSTING, posts={OPENED: {"at": last.at.isoformat(), "ts": "", "severity": ""}})
    thread = Thread(channel, None, note, save, datetime.now(timezone.utc), kind="digest")
    return next(reversed([*thread.show(lambda: message)]), "unchanged")
