"""A finding and its alert context as a message: plain text and Block Kit. Deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from slack_sdk.models.blocks import Block, ContextBlock, HeaderBlock, ImageBlock, MarkdownTextObject, PlainTextObject, SectionBlock
from slack_sdk.models.blocks.basic_components import SlackFile

from plumbline.alerts.slack.mrkdwn import escape, text_object, truncate
from plumbline.declarations import digest
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import capitalize_first, first_lines
from plumbline.metrics.units import Amount, AmountText
from plumbline.results.finding import Finding


@dataclass(frozen=True)
class AlertContext:
    """`owner`: a Slack id to mention. `cost`, `choice`: one sentence each; `usd`: the cost a month, negative if it is less, None if unknown;
    `credit`: of a broken promise, in USD; `claim`: what trials prove broken, in words. `links`: pairs of address and label. `snoozed_until`: in the future, or None. `came_back`: when the earlier finding was resolved, and its id.
    `chart`: the id of the chart's file in Slack, and its text alternative."""

    owner: str | None = None
    cost: str = ""
    choice: str = ""
    links: tuple[tuple[str, str], ...] = ()
    snoozed_until: datetime | None = None
    came_back: str = ""
    usd: Amount | None = None
    credit: Amount | None = None
    claim: AmountText = ""
    chart: tuple[str, str] | None = None

    @property
    def mention(self) -> str:
        """The owner in mrkdwn; empty without one."""
        if self.owner is None:
            return ""
        return f"<!subteam^{self.owner}>" if self.owner.startswith("S") else f"<@{self.owner}>"


HEADER_LIMIT, FIELD_LIMIT, SECTION_LIMIT, TEXT_LIMIT = 150, 400, 1800, 4000
"""Characters in a header, a field, a section's text and the notification text. Slack takes more in a single field or section, but some
13,000 in all blocks of a message together."""
_MOST_MEMBERS = 10


@dataclass(frozen=True)
class Message:
    """`text` is complete on its own (logs, notifications); `blocks` is Block Kit JSON; `digest` changes when anything shown changes.

    `fields`: pairs of label and value. `severity`: info, warn or page; of the digest, info. `links`: pairs of address and label.
    """

    text: str
    blocks: tuple[dict[str, Any], ...]
    title: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    severity: str = "info"
    links: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        return digest({"text": self.text, "blocks": list(self.blocks)})


def render(finding: Finding, context: AlertContext | None = None) -> Message:
    """The message of a finding, at most five blocks: headline in words, cause and cost, chart, links, and what it is. `render_details` has the
    rest, which goes into the thread."""
    context = context or AlertContext()
    blocks: list[Block] = [
        _heading(_title(finding, context)),
        SectionBlock(text=MarkdownTextObject(text=_because(finding, context))),
    ]
    if context.chart is not None:
        file_id, alternative = context.chart
        blocks.append(ImageBlock(slack_file=SlackFile(id=file_id), alt_text=alternative))
    if context.links:
        row_of_links = " · ".join(f"<{address}|{escape(words)}>" for address, words in context.links)
        blocks.append(SectionBlock(text=MarkdownTextObject(text=truncate(row_of_links, SECTION_LIMIT))))
    blocks.append(ContextBlock(elements=[MarkdownTextObject(text=truncate(escape(_footer(finding, context)), FIELD_LIMIT))]))
    return Message(
        truncate(_plain_text(finding, context), TEXT_LIMIT),
        tuple(block.to_dict() for block in blocks),
        _title(finding, context),
        tuple(_facts(finding, context)),
        finding.severity,
        context.links,
    )


def render_details(finding: Finding, context: AlertContext | None = None) -> Message:
    """The first reply in a finding's thread: statistics, facts, members and commands."""
    context = context or AlertContext()
    blocks: list[Block] = [
        SectionBlock(text=text_object(finding.evidence, SECTION_LIMIT)),
        SectionBlock(
            fields=[
                MarkdownTextObject(text=truncate(f"*{name}*\n{escape(value)}", FIELD_LIMIT)) for name, value in _facts(finding, context)
            ]
        ),
    ]
    if len(finding.members) > 1:
        lines = first_lines([f"• {member.text}" for member in finding.members], _MOST_MEMBERS, "… and {} more: see the finding")
        blocks.append(
            SectionBlock(text=text_object("\n".join(lines), SECTION_LIMIT, label=capitalize_first(type_of(finding).members_title)))
        )
    remedy = f"{escape(finding.remedy)}\n" if finding.remedy else ""
    commands = remedy + "\n".join(f"`{escape(command)}`  {escape(why)}" for command, why in type_of(finding).steps(finding))
    blocks.append(SectionBlock(text=MarkdownTextObject(text=truncate(f"*Next steps*\n{commands}", SECTION_LIMIT))))
    return Message(truncate(_plain_text(finding, context), TEXT_LIMIT), tuple(block.to_dict() for block in blocks), "Details")


def _title(finding: Finding, context: AlertContext) -> str:
    simulated = "SIMULATED " if finding.simulated else ""
    return f"{simulated}{_status(finding)}: {headline(finding, context.usd, context.credit, context.claim)}"


def _heading(title: str) -> Block:
    """The title whole: Slack's headers end at 150 characters, a bold section does not."""
    if len(title) <= HEADER_LIMIT:
        return HeaderBlock(text=PlainTextObject(text=title))
    return SectionBlock(text=text_object(title, FIELD_LIMIT, bold=True))


def _because(finding: Finding, context: AlertContext) -> str:
    """Cause, cost, decisions and history, a line each, after the mention."""
    lines = [
        f"*{label}*  {escape(text)}"
        for label, text in (
            (type_of(finding).reason_label, finding.explanation.removeprefix("explained by: ")),
            ("Cost", context.cost.removeprefix("costs ").removeprefix("cost ")),
            ("Decisions", context.choice),
            ("Remedy", finding.remedy),
            ("Came back", context.came_back),
        )
        if text
    ]
    mention = f"{context.mention} " if context.mention else ""
    if not lines:
        return mention + text_object(finding.evidence, SECTION_LIMIT - len(mention)).text
    return mention + truncate("\n".join(lines), SECTION_LIMIT - len(mention))


def _status(finding: Finding) -> str:
    if finding.state == "acknowledged":
        return f"{finding.severity.upper()} (acknowledged)"
    if finding.state == "accepted":
        accepted = type_of(finding).accepted_as
        return f"ACCEPTED AS {accepted}" if accepted else "ACCEPTED"
    return "RESOLVED" if finding.state == "resolved" else finding.severity.upper()


def _state(finding: Finding, context: AlertContext) -> str:
    until = context.snoozed_until
    return finding.state if until is None else f"{finding.state}, snoozed until {until:%Y-%m-%d %H:%M} UTC"


def _facts(finding: Finding, context: AlertContext) -> list[tuple[str, str]]:
    of = type_of(finding)
    began = f"{'Last in' if of.missing else 'Since'} campaign"
    facts = [*of.about(finding), (began, finding.campaign_id) if finding.campaign_id is not None else ("Since", finding.began)]
    if finding.campaigns and not of.missing:
        facts.append(("Compared with", ", ".join(finding.baseline_campaigns) or "no accepted baseline"))
    if finding.attributed_to:
        facts.append(("Attributed to", ", ".join(finding.attributed_to)))
    if context.came_back:
        facts.append(("Came back", context.came_back))
    return [*facts, ("State", _state(finding, context))]


def _footer(finding: Finding, context: AlertContext) -> str:
    simulated = " · SIMULATED: no real machine was measured" if finding.simulated else ""
    where = finding.series_key or finding.provider
    return f"finding {finding.finding_id} · {_state(finding, context)} · {finding.kind} · {where}{simulated}"


def _plain_text(finding: Finding, context: AlertContext) -> str:
    lines = [_title(finding, context), finding.evidence]
    if finding.explanation:
        lines.append(finding.explanation)
    if context.came_back:
        lines.append(f"came back: {context.came_back}")
    if context.cost:
        lines.append(context.cost)
    if context.choice:
        lines.append(context.choice)
    if len(finding.members) > 1:
        lines.append(f"{type_of(finding).members_title}: " + "; ".join(m.text for m in finding.members[:_MOST_MEMBERS]))
    if finding.remedy:
        lines.append(finding.remedy)
    lines += [f"{command}   ({why})" for command, why in type_of(finding).steps(finding)]
    lines += [f"{words}: {address}" for address, words in context.links]
    return "\n      ".join(lines)


ESCALATED, REOPENED, REMINDER, JOINED = "escalated", "reopened", "reminder", "cause"


def reply(what: str, finding: Finding, context: AlertContext) -> Message:
    """The reply named `what`: `escalated`, `reopened`, `cause`, or `reminder N`. Slack notifies the mentioned owner: not of a cause, whose thread
    has notified them already."""
    first, steps = _reply_text(what, finding, context)
    lines = [first, headline(finding, context.usd, context.credit, context.claim), *([context.cost] if context.cost else [])]
    mention = f"{context.mention} " if context.mention and what != JOINED else ""
    severity = "info" if what == JOINED else finding.severity
    blocks: list[Block] = [
        SectionBlock(text=text_object(first, SECTION_LIMIT, bold=True, before=mention)),
        SectionBlock(text=text_object("\n".join(lines[1:]), SECTION_LIMIT)),
    ]
    if steps:
        blocks.append(SectionBlock(text=MarkdownTextObject(text="\n".join(f"`{escape(c)}`  {escape(why)}" for c, why in steps))))
    text = "\n      ".join([*lines, *(f"{command}   ({why})" for command, why in steps)])
    return Message(truncate(text, TEXT_LIMIT), tuple(b.to_dict() for b in blocks), first, (), severity, context.links)


def _reply_text(what: str, finding: Finding, context: AlertContext) -> tuple[str, list[tuple[str, str]]]:
    simulated = "SIMULATED: " if finding.simulated else ""
    if what == ESCALATED:
        return f"{simulated}Severity raised to page", []
    if what == REOPENED:
        return f"{simulated}Finding recurred ({context.came_back})", []
    if what == JOINED:
        return f"{simulated}One cause explains this and others: the message above is about all of them now", []
    return f"{simulated}Open since {finding.began} and not acknowledged ({what})", [
        (f"plumbline findings acknowledge {finding.finding_id} --why …", "take ownership and stop the reminders"),
        (f"plumbline findings snooze {finding.finding_id} --until 14d --why …", "postpone the reminders"),
    ]


_REQUIRED_ACTIONS = "/required_actions?response_received=false"
"""Airflow's list of open questions."""


def finding_links(finding: Finding, airflow_url: str, trial_id: str | None = None, asked: bool = False) -> tuple[tuple[str, str], ...]:
    """Pairs of address and label. `airflow_url`: Airflow's public address. `trial_id`: a trial that shows the finding. `asked`: a decision is due."""
    base = airflow_url.rstrip("/")
    links = [(f"{base}/plumbline/findings/{quote(finding.finding_id, safe='')}", "finding")]
    if asked and finding.state == "open":
        links.append((f"{base}{_REQUIRED_ACTIONS}", "decide in Airflow"))
    if FirstChoice.has(finding):
        team, kind, workloads = FirstChoice.choice(finding)
        of = f"?workload={quote(workloads[0], safe='')}" if len(workloads) == 1 else ""
        links.append((f"{base}/plumbline/decisions/{quote(team, safe='')}/{kind}{of}", "decision"))
    if finding.campaigns:
        links.append((f"{base}/plumbline/campaigns/{quote(finding.campaigns[-1], safe='')}", "campaign"))
    if trial_id is not None:
        links.append((f"{base}/plumbline/trials/{quote(trial_id, safe='')}", "trial with evidence"))
    return tuple(links)
