"""A finding as a message: plain text for the log, Block Kit for Slack. The same finding always gives the same message.

It has to be understood by somebody who was woken by it: what, by how much, where and since when come first, then the likely cause,
then what to do. Slack refuses over-long parts, so each is cut to its limit, and what was cut says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slack_sdk.models.blocks import Block, ContextBlock, HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock

from plumbline.alerts.context import Context
from plumbline.alerts.mrkdwn import cut, escaped, markdown
from plumbline.declarations import digest
from plumbline.drift import Finding
from plumbline.drift.winner import choice_of, is_winner

HEADER_LIMIT, FIELD_LIMIT, SECTION_LIMIT, TEXT_LIMIT = 150, 400, 1800, 4000
"""Characters in a header, a field, a section's text and the notification text. Slack takes more in a single field or section, but some
13,000 in all blocks of a message together."""
_MOST_MEMBERS = 10


@dataclass(frozen=True)
class Message:
    """`text` is complete on its own (logs, notifications); `blocks` is Block Kit JSON; `digest` changes when anything shown changes."""

    text: str
    blocks: tuple[dict[str, Any], ...]

    @property
    def digest(self) -> str:
        return digest({"text": self.text, "blocks": list(self.blocks)})


def render(finding: Finding, report: str | None = None, context: Context | None = None) -> Message:
    """The message of a finding; `report` is the path or address of the report that shows it, if there is one."""
    context = context or Context()
    mention = f"{context.mention} " if context.mention else ""
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=cut(_title(finding), HEADER_LIMIT))),
        SectionBlock(text=markdown(finding.headline, SECTION_LIMIT, bold=True, before=mention)),
        SectionBlock(fields=[_field(name, value) for name, value in _facts(finding, context)]),
    ]
    if finding.explanation:
        blocks.append(SectionBlock(text=markdown(finding.explanation, SECTION_LIMIT, label="Likely cause")))
    if context.cost:
        blocks.append(SectionBlock(text=markdown(context.cost, SECTION_LIMIT, label="Money")))
    if context.choice:
        blocks.append(SectionBlock(text=markdown(context.choice, SECTION_LIMIT, label="Decisions")))
    if len(finding.members) > 1:
        blocks.append(SectionBlock(text=markdown(_members(finding), SECTION_LIMIT, label=f"What {_together(finding)}")))
    remedy = f"{escaped(finding.remedy)}\n" if finding.remedy else ""
    commands = remedy + "\n".join(f"`{escaped(command)}`  {escaped(why)}" for command, why in next_steps(finding))
    blocks.append(SectionBlock(text=MarkdownTextObject(text=cut(f"*What to do*\n{commands}" + _report_line(report), SECTION_LIMIT))))
    if context.links:
        shown = " · ".join(f"<{address}|{escaped(words)}>" for address, words in context.links)
        blocks.append(SectionBlock(text=MarkdownTextObject(text=f"*Look*\n{shown}")))
    blocks.append(ContextBlock(elements=[MarkdownTextObject(text=cut(escaped(_footer(finding)), FIELD_LIMIT))]))
    return Message(text=cut(_plain(finding, report, context), TEXT_LIMIT), blocks=tuple(block.to_dict() for block in blocks))


def _title(finding: Finding) -> str:
    simulated = "SIMULATED " if finding.simulated else ""
    what = " ".join(part for part in (finding.provider, finding.workload_kind, finding.title or finding.subject) if part)
    return f"{simulated}{_status(finding)}: {what}"


def _status(finding: Finding) -> str:
    if finding.state == "acknowledged":
        return f"{finding.severity.upper()} (acknowledged)"
    if finding.state == "accepted":
        if is_winner(finding):
            return "ACCEPTED AS FIRST CHOICE"
        return "ACCEPTED AS THE PRICE" if finding.kind == "price" else "ACCEPTED AS NEW BASELINE"
    return "RESOLVED" if finding.state == "resolved" else finding.severity.upper()


def _state(finding: Finding, context: Context) -> str:
    until = context.snoozed_until
    return finding.state if until is None else f"{finding.state}, snoozed until {until:%Y-%m-%d %H:%M} UTC"


def _facts(finding: Finding, context: Context) -> list[tuple[str, str]]:
    facts = [
        *(
            [("Part of this installation", finding.subject)]
            if finding.kind == "self"
            else [("Provider", finding.provider), ("Workload", finding.concerns or "all that run there")]
        ),
        (f"{'Last in' if finding.kind == 'missing_data' else 'Since'} campaign", finding.campaign_id)
        if finding.campaign_id is not None
        else ("Since", finding.began),
    ]
    if finding.campaigns and finding.kind != "missing_data":  # what no campaign showed is held against what the provider was before
        facts.append(("Compared with", ", ".join(finding.baseline_campaigns) or "no accepted baseline"))
    if finding.attributed_to:
        facts.append(("Attributed to", ", ".join(finding.attributed_to)))
    if context.came_back:
        facts.append(("Came back", context.came_back))
    return [*facts, ("State", _state(finding, context))]


def _together(finding: Finding) -> str:
    if is_winner(finding):
        return "can be chosen, best first"
    return "is missing" if finding.kind == "missing_data" else "moved together"


def _members(finding: Finding) -> str:
    lines = [f"• {member.text}" for member in finding.members[:_MOST_MEMBERS]]
    more = len(finding.members) - _MOST_MEMBERS
    return "\n".join([*lines, *([f"… and {more} more: see the finding"] if more > 0 else [])])


def next_steps(finding: Finding) -> list[tuple[str, str]]:
    """Commands with what each is for, the first one first."""
    steps = [(f"plumbline findings show {finding.finding_id}", "everything that was measured")]
    if is_winner(finding):
        return _steps_of_a_choice(finding)
    moves_baseline = finding.kind in ("performance", "environment")
    if moves_baseline and finding.baseline_campaigns and finding.campaigns:
        steps.append((f"plumbline compare {finding.baseline_campaigns[-1]} {finding.campaigns[0]}", "every metric of both campaigns"))
    if finding.state in ("open", "acknowledged"):
        accept, resolve = (f"plumbline findings {verb} {finding.finding_id} --why …" for verb in ("accept", "resolve"))
        if moves_baseline and finding.campaigns:
            steps.append((accept, "this is the new normal: move the baseline"))
        elif moves_baseline:
            steps.append((accept, "this is the new normal: later looks are held against it"))
        elif finding.kind == "price":
            steps += [(accept, "this is the price from now on"), (resolve, "the source was wrong")]
        else:
            steps.append((resolve, "mended, or not what it seemed"))
    if finding.state == "open":
        steps.append((f"plumbline findings acknowledge {finding.finding_id} --why …", "somebody is on it"))
    return steps


def _steps_of_a_choice(finding: Finding) -> list[tuple[str, str]]:
    team, kind, workloads = choice_of(finding.subject)
    one = f" --workload {workloads[0]}" if len(workloads) == 1 else ""
    steps = [(f"plumbline decide --team {team} --kind {kind}{one}", "the ranking, and what would change it")]
    if finding.state in ("open", "acknowledged"):
        steps.append((f"plumbline findings accept {finding.finding_id} --why …", "the team goes along"))
        steps.append((f"plumbline findings resolve {finding.finding_id} --why …", "the team stays where it is"))
    return steps


def _report_line(report: str | None) -> str:
    if report is None:
        return ""
    return f"\n<{report}|report>" if report.startswith(("http://", "https://")) else f"\nreport: `{escaped(report)}`"


def _footer(finding: Finding) -> str:
    simulated = " · SIMULATED: no real machine was measured" if finding.simulated else ""
    where = finding.series_key or finding.provider
    return f"finding {finding.finding_id} · {finding.kind} · {where}{simulated}"


def _plain(finding: Finding, report: str | None, context: Context) -> str:
    state = "" if finding.state == "open" else f"[{_status(finding)}] "
    lines = [f"{state}{finding.headline}"]
    if finding.explanation:
        lines.append(finding.explanation)
    if context.came_back:
        lines.append(f"came back: {context.came_back}")
    if context.cost:
        lines.append(context.cost)
    if context.choice:
        lines.append(context.choice)
    if len(finding.members) > 1:
        lines.append(f"{_together(finding)}: " + "; ".join(m.text for m in finding.members[:_MOST_MEMBERS]))
    if finding.remedy:
        lines.append(finding.remedy)
    lines += [f"{command}   ({why})" for command, why in next_steps(finding)]
    if report is not None:
        lines.append(f"report: {report}")
    lines += [f"{words}: {address}" for address, words in context.links]
    return "\n      ".join(lines)


def _field(name: str, value: str) -> MarkdownTextObject:
    return MarkdownTextObject(text=cut(f"*{name}*\n{escaped(value)}", FIELD_LIMIT))
