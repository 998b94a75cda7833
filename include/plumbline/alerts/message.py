"""A finding as a message: plain text for the log, Block Kit for Slack. The same finding always gives the same message.

It has to be understood by somebody who was woken by it: what, by how much, where and since when come first, then the likely cause,
then what to do. Slack refuses over-long parts, so each is cut to its limit, and what was cut says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slack_sdk.models.blocks import Block, ContextBlock, HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock

from plumbline.declarations import digest
from plumbline.drift import Finding

HEADER_LIMIT, FIELD_LIMIT, SECTION_LIMIT, TEXT_LIMIT = 150, 2000, 3000, 4000
"""Characters that Slack takes in a header, a field, a section's text and (advised) the notification text."""
_MOST_MEMBERS = 10
_CUT = " … (cut: see the finding)"
_SETTLED = {"accepted": "ACCEPTED AS NEW BASELINE", "resolved": "RESOLVED"}


@dataclass(frozen=True)
class Message:
    """`text` is complete on its own (logs, notifications); `blocks` is Block Kit JSON; `digest` changes when anything shown changes."""

    text: str
    blocks: tuple[dict[str, Any], ...]

    @property
    def digest(self) -> str:
        return digest({"text": self.text, "blocks": list(self.blocks)})


def render(finding: Finding, report: str | None = None) -> Message:
    """The message of a finding; `report` is the path or address of the report that shows it, if there is one."""
    blocks: list[Block] = [
        HeaderBlock(text=PlainTextObject(text=_cut(_title(finding), HEADER_LIMIT))),
        SectionBlock(text=_markdown(finding.headline, SECTION_LIMIT, bold=True)),
        SectionBlock(fields=[_field(name, value) for name, value in _facts(finding)]),
    ]
    if finding.explanation:
        blocks.append(SectionBlock(text=_markdown(finding.explanation, SECTION_LIMIT, label="Likely cause")))
    if len(finding.members) > 1:
        blocks.append(SectionBlock(text=_markdown(_members(finding), SECTION_LIMIT, label="What moved together")))
    commands = "\n".join(f"`{_escaped(command)}`  {_escaped(why)}" for command, why in _next_steps(finding))
    blocks.append(SectionBlock(text=MarkdownTextObject(text=_cut(f"*What to do*\n{commands}" + _report_line(report), SECTION_LIMIT))))
    blocks.append(ContextBlock(elements=[MarkdownTextObject(text=_cut(_escaped(_footer(finding)), FIELD_LIMIT))]))
    return Message(text=_cut(_plain(finding, report), TEXT_LIMIT), blocks=tuple(block.to_dict() for block in blocks))


def _title(finding: Finding) -> str:
    simulated = "SIMULATED " if finding.simulated else ""
    what = " ".join(part for part in (finding.provider, finding.workload_kind, finding.title or finding.subject) if part)
    return f"{simulated}{_status(finding)}: {what}"


def _status(finding: Finding) -> str:
    if finding.state == "acknowledged":
        return f"{finding.severity.upper()} (acknowledged)"
    return _SETTLED.get(finding.state, finding.severity.upper())


def _facts(finding: Finding) -> list[tuple[str, str]]:
    facts = [
        ("Provider", finding.provider),
        ("Workload", finding.concerns or "all that run there"),
        ("Since campaign", finding.campaign_id) if finding.campaign_id is not None else ("Since", finding.began),
    ]
    if finding.campaigns:  # what no campaign showed is held against what the provider was before
        facts.append(("Compared with", ", ".join(finding.baseline_campaigns) or "no accepted baseline"))
    if finding.attributed_to:
        facts.append(("Attributed to", ", ".join(finding.attributed_to)))
    return [*facts, ("State", finding.state)]


def _members(finding: Finding) -> str:
    lines = [f"• {member.text}" for member in finding.members[:_MOST_MEMBERS]]
    more = len(finding.members) - _MOST_MEMBERS
    return "\n".join([*lines, *([f"… and {more} more: see the finding"] if more > 0 else [])])


def _next_steps(finding: Finding) -> list[tuple[str, str]]:
    """Commands with what each is for, the first one first."""
    steps = [(f"plumbline findings show {finding.finding_id}", "everything that was measured")]
    moves_baseline = finding.kind in ("performance", "environment")
    if moves_baseline and finding.baseline_campaigns and finding.campaigns:
        steps.append((f"plumbline compare {finding.baseline_campaigns[-1]} {finding.campaigns[0]}", "every metric of both campaigns"))
    if finding.state in ("open", "acknowledged"):
        steps.append(
            (f"plumbline findings accept {finding.finding_id} --why …", "this is the new normal: move the baseline")
            if moves_baseline
            else (f"plumbline findings resolve {finding.finding_id} --why …", "mended, or not what it seemed")
        )
    if finding.state == "open":
        steps.append((f"plumbline findings acknowledge {finding.finding_id} --why …", "somebody is on it"))
    return steps


def _report_line(report: str | None) -> str:
    if report is None:
        return ""
    return f"\n<{report}|report>" if report.startswith(("http://", "https://")) else f"\nreport: `{_escaped(report)}`"


def _footer(finding: Finding) -> str:
    simulated = " · SIMULATED: no real machine was measured" if finding.simulated else ""
    where = finding.series_key or finding.provider
    return f"finding {finding.finding_id} · {finding.kind} · {where}{simulated}"


def _plain(finding: Finding, report: str | None) -> str:
    state = "" if finding.state == "open" else f"[{_status(finding)}] "
    lines = [f"{state}{finding.headline}"]
    if finding.explanation:
        lines.append(finding.explanation)
    if len(finding.members) > 1:
        lines.append("moved together: " + "; ".join(m.text for m in finding.members[:_MOST_MEMBERS]))
    lines += [f"{command}   ({why})" for command, why in _next_steps(finding)]
    if report is not None:
        lines.append(f"report: {report}")
    return "\n      ".join(lines)


def _field(name: str, value: str) -> MarkdownTextObject:
    return MarkdownTextObject(text=_cut(f"*{name}*\n{_escaped(value)}", FIELD_LIMIT))


def _markdown(text: str, limit: int, *, label: str | None = None, bold: bool = False) -> MarkdownTextObject:
    # Cut before the bold marks go round it, or the cut would take the closing one.
    body = _cut(_escaped(text), limit - 60)
    return MarkdownTextObject(text=f"*{label}*\n{body}" if label else f"*{body}*" if bold else body)


def _escaped(text: str) -> str:
    """Slack's three control characters, so that a version string cannot become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT
