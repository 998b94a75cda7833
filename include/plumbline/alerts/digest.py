"""The monthly digest: open findings ranked by cost, changes of the month, sums by provider and team; posted once a month."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any, Literal, Protocol

from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import Block, ContextBlock, DividerBlock, HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock
from slack_sdk.models.metadata import Metadata

from plumbline.alerts.message import HEADER_LIMIT, SECTION_LIMIT, TEXT_LIMIT, Message
from plumbline.alerts.monthly_cost import MonthlyCost, format_amount
from plumbline.alerts.slack.connection import MESSAGE_GONE, Slack, error_code, iterate_messages
from plumbline.alerts.slack.mrkdwn import escape, truncate
from plumbline.archive import AuditView
from plumbline.findings.decision_change import is_decision_change
from plumbline.results.finding import Finding

_SEVERITY_ORDER = {"page": 0, "warn": 1, "info": 2}
_MOST_OPEN, _MOST_SUMS, _MOST_CHANGED = 10, 12, 5


@dataclass(frozen=True)
class Entry:
    """A finding with its monthly cost; `settled` is the day of its end, None while it waits for somebody. `teams` use what it is about."""

    finding: Finding
    cost: MonthlyCost
    opened: date
    settled: date | None = None
    teams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Digest:
    """What there is to say of a month (`2026-11`) on the day `on`: every finding that is open then, and those that began or ended in the month."""

    month: str
    on: date
    entries: tuple[Entry, ...]

    def waiting(self, *, simulated: bool = False) -> list[Entry]:
        """Open and acknowledged findings, the dearest first; what is unknown after what is known, the gravest and oldest first."""
        found = [e for e in self.entries if e.settled is None and e.finding.simulated == simulated]
        return sorted(found, key=lambda e: (-abs(e.cost.usd or 0.0), _SEVERITY_ORDER[e.finding.severity], e.opened, e.finding.finding_id))

    def opened(self) -> list[Entry]:
        """Findings that began in the month, also those that are over; simulated ones are left out."""
        return [e for e in self.entries if f"{e.opened:%Y-%m}" == self.month and not e.finding.simulated]

    def settled(self, state: str) -> list[Entry]:
        """Findings that were `accepted` or `resolved` in the month; simulated ones are left out."""
        over = [e for e in self.entries if e.settled is not None and f"{e.settled:%Y-%m}" == self.month and e.finding.state == state]
        return [e for e in over if not e.finding.simulated]


def render_digest(digest: Digest) -> Message:
    """The month's message. The same digest always gives the same one."""
    waiting = digest.waiting()
    lines = [_line(i, entry, digest.on) for i, entry in enumerate(waiting[:_MOST_OPEN], 1)]
    if len(waiting) > _MOST_OPEN:
        lines.append(f"… and {len(waiting) - _MOST_OPEN} more: `plumbline findings`")
    # A section takes less than ten long lines: each has its own.
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=truncate(_title(digest), HEADER_LIMIT))),
        _section(_total(waiting)),
        *([DividerBlock()] if lines else []),
        *(_section(line) for line in lines),
    ]
    by_provider = _sums(_with_cost(waiting), lambda e: (e.finding.provider,))
    by_team = _sums(_with_cost(waiting), lambda e: e.teams)
    sums = [f"*{name}*\n" + "\n".join(said) for name, said in (("By provider", by_provider), ("By team", by_team)) if said]
    if sums:
        blocks += [DividerBlock(), SectionBlock(fields=[MarkdownTextObject(text=truncate(s, SECTION_LIMIT)) for s in sums])]
    blocks += [DividerBlock(), _section("\n".join(_changes(digest)))]
    blocks.append(ContextBlock(elements=[MarkdownTextObject(text=truncate(escape(_footer(digest)), SECTION_LIMIT))]))
    plain = [_title(digest), _total(waiting), *lines, *sums, *_changes(digest), _footer(digest)]
    text = "\n".join(line.replace("*", "").replace("`", "") for line in plain)
    return Message(text=truncate(text, TEXT_LIMIT), blocks=tuple(block.to_dict() for block in blocks))


def _title(digest: Digest) -> str:
    count = len(digest.waiting())
    return f"Plumbline in {digest.month}: {_findings(count)} open"


def _total(waiting: Sequence[Entry]) -> str:
    if not waiting:
        return "Nothing is open: nothing waits for anybody."
    waiting = _with_cost(waiting)
    if not waiting:
        return "What is open is about teams' first choices, which cost nothing by themselves."
    known = [e.cost.usd for e in waiting if e.cost.usd is not None]
    unknown = len(waiting) - len(known)
    if not known:
        return f"What is open costs an unknown amount: no volume is declared for {_findings(unknown)} (`volumes` in alerts.yaml)."
    more = sum(v for v in known if v > 0)
    less = -sum(v for v in known if v < 0)
    saved = f", and saves {format_amount(less)} USD" if less else ""
    rest = f" The cost of {_findings(unknown)} is not known." if unknown else ""
    return f"What is open costs *{format_amount(more)} USD a month* at the declared volumes{saved}.{rest}"


def _with_cost(entries: Sequence[Entry]) -> list[Entry]:
    """Without those about a team's first choice: what changed in price or pace has a finding, and a cost, of its own."""
    return [entry for entry in entries if not is_decision_change(entry.finding)]


def _line(place: int, entry: Entry, on: date) -> str:
    finding = entry.finding
    what = (
        f"{finding.severity.upper()}  {finding.provider} · {finding.concerns or 'the whole provider'} · {finding.title or finding.subject}"
    )
    days = (on - entry.opened).days
    since = f"since {finding.began}, open {days} day{'' if days == 1 else 's'}"
    state = " (acknowledged)" if finding.state == "acknowledged" else ""
    money = "a choice" if is_decision_change(finding) else _money(entry.cost)
    return f"{place}. *{money}*  {truncate(escape(what), 300)}{state}, {since}  `plumbline findings show {finding.finding_id}`"


def _money(cost: MonthlyCost) -> str:
    if cost.usd is None:
        return "cost unknown"
    return f"{format_amount(cost.usd)} USD a month" if cost.usd >= 0 else f"saves {format_amount(-cost.usd)} USD a month"


def _sums(waiting: Sequence[Entry], names: Callable[[Entry], Iterable[str]]) -> list[str]:
    """One line for each name, the dearest first: what its findings cost together, and how many there are."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in waiting:
        for name in names(entry):
            groups[name].append(entry)
    said = []
    for name, own in groups.items():
        known = [e.cost.usd for e in own if e.cost.usd is not None]
        cost = MonthlyCost(sum(known) if known else None, "")
        unknown = f", {len(own) - len(known)} of unknown cost" if known and len(known) < len(own) else ""
        said.append((-(cost.usd or 0.0), name, f"{escape(name)}: {_money(cost)} ({_findings(len(own))}{unknown})"))
    more = len(said) - _MOST_SUMS
    return [line for _, _, line in sorted(said)[:_MOST_SUMS]] + ([f"… and {more} more"] if more > 0 else [])


def _changes(digest: Digest) -> list[str]:
    accepted, resolved = digest.settled("accepted"), digest.settled("resolved")
    counts = f"{len(digest.opened())} began, {len(accepted)} accepted as the new normal, {len(resolved)} resolved"
    lines = [f"*What changed in {digest.month}*: {counts}"]
    for entry in [*accepted, *resolved][:_MOST_CHANGED]:
        finding = entry.finding
        goes_on = f", {_money(entry.cost)} from now on" if finding.state == "accepted" and entry.cost.usd is not None else ""
        lines.append(f"• {finding.state}: {truncate(escape(f'{finding.provider} · {finding.title or finding.subject}'), 250)}{goes_on}")
    more = len(accepted) + len(resolved) - _MOST_CHANGED
    return [*lines, *([f"… and {more} more: `plumbline findings list --all`"] if more > 0 else [])]


def _footer(digest: Digest) -> str:
    simulated = len(digest.waiting(simulated=True))
    apart = f" · {_findings(simulated)} of simulated providers not counted" if simulated else ""
    return f"digest of {digest.month}, as of {digest.on:%Y-%m-%d} · amounts at the declared volumes and the accepted prices, else those declared when each began{apart}"


def _findings(count: int) -> str:
    return f"{count} finding{'' if count == 1 else 's'}"


def _section(text: str) -> SectionBlock:
    return SectionBlock(text=MarkdownTextObject(text=truncate(text, SECTION_LIMIT)))


# A message that belongs to no finding, posted once: the archive's audit log keeps where it stands.
#
# digest_begun   a post was begun; whether it arrived is not known. The next run looks for it in the channel by the message's metadata
# digest_sent    the message's id and what it says; one that says something else by now is updated in place


DIGEST_EVENT = "plumbline_digest"
_BEGUN, _SENT, _BY = "digest_begun", "digest_sent", "digest"
_MARGIN_S = 300

Posted = Literal["posted", "updated", "unchanged"]


class AuditLog(Protocol):
    """What the archive offers: the log of who did what."""

    def audit(self, subject: str | None = None) -> Sequence[AuditView]: ...

    def add_audit(self, *, who: str, what: str, subject: str, why: str, detail: Mapping[str, Any] | None = None) -> None: ...


def post_digest(month: str, message: Message, kept: AuditLog, slack: Slack, log: logging.Logger | None = None) -> Posted:
    """Post the month's digest to the connection's channel, or bring the one that stands there up to date.

    Raises what Slack's client raises; to call it again is always safe.
    """
    log = log or logging.getLogger(__name__)
    subject = f"digest/{month}/{slack.channel}"
    entries = kept.audit(subject)
    last = entries[-1] if entries else None
    ts = str(last.detail["ts"]) if last is not None and last.what == _SENT else ""
    if last is not None and last.what == _BEGUN:
        ts = _find_lost(month, slack, last.at, log)
    if ts and last is not None and last.what == _SENT and last.detail["digest"] == message.digest:
        return "unchanged"
    said: dict[str, Any] = {"text": message.text, "blocks": list(message.blocks), "metadata": _metadata(month)}

    def note(what: str, ts: str) -> None:
        kept.add_audit(who=_BY, what=what, subject=subject, why=f"digest of {month}", detail={"ts": ts, "digest": message.digest})

    if ts:
        try:
            slack.client.chat_update(channel=slack.channel, ts=ts, **said)
            note(_SENT, ts)
            return "updated"
        except SlackApiError as error:
            if error_code(error) not in MESSAGE_GONE:
                raise
            log.warning("the digest of %s is gone (%s): posting it anew", month, error_code(error))
    note(_BEGUN, "")
    answer = slack.client.chat_postMessage(channel=slack.channel, unfurl_links=False, **said)
    note(_SENT, str(answer["ts"]))
    return "posted"


def _metadata(month: str) -> dict[str, Any]:
    return Metadata(event_type=DIGEST_EVENT, event_payload={"month": month}).to_dict()


def _find_lost(month: str, slack: Slack, begun: datetime, log: logging.Logger) -> str:
    """The id of a digest that was posted but never noted; empty if there is none, or if the bot may not look."""
    begun = begun if begun.tzinfo else begun.replace(tzinfo=timezone.utc)
    since = f"{begun.timestamp() - _MARGIN_S:.6f}"
    try:
        said = iterate_messages(slack.client.conversations_history, channel=slack.channel, oldest=since, include_all_metadata=True)
        return next((str(m["ts"]) for m in said if m.get("metadata") == _metadata(month)), "")
    except SlackApiError as error:
        if error_code(error) != "missing_scope":
            raise
        log.warning("the bot lacks channels:history: the digest of %s may be posted a second time after a crash", month)
        return ""
