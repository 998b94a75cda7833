"""What is said in a finding's thread after its first message: that it became graver, that it came back, that it still waits."""

from __future__ import annotations

from slack_sdk.models.blocks import Block, MarkdownTextObject, SectionBlock

from plumbline.alerts.context import Context
from plumbline.alerts.message import SECTION_LIMIT, TEXT_LIMIT, Message
from plumbline.alerts.mrkdwn import cut, escaped, markdown
from plumbline.drift import Finding

ESCALATED, REOPENED, REMINDER = "escalated", "reopened", "reminder"


def reply(what: str, finding: Finding, context: Context) -> Message:
    """The reply named `what`: `escalated`, `reopened`, or `reminder N`. Who is mentioned is notified by it."""
    first, steps = _said(what, finding, context)
    lines = [first, finding.headline, *([context.cost] if context.cost else [])]
    mention = f"{context.mention} " if context.mention else ""
    blocks: list[Block] = [
        SectionBlock(text=markdown(first, SECTION_LIMIT, bold=True, before=mention)),
        SectionBlock(text=markdown("\n".join(lines[1:]), SECTION_LIMIT)),
    ]
    if steps:
        blocks.append(SectionBlock(text=MarkdownTextObject(text="\n".join(f"`{escaped(c)}`  {escaped(why)}" for c, why in steps))))
    text = "\n      ".join([*lines, *(f"{command}   ({why})" for command, why in steps)])
    return Message(text=cut(text, TEXT_LIMIT), blocks=tuple(block.to_dict() for block in blocks))


def _said(what: str, finding: Finding, context: Context) -> tuple[str, list[tuple[str, str]]]:
    simulated = "SIMULATED: " if finding.simulated else ""
    if what == ESCALATED:
        return f"{simulated}Now a page: it became graver than what was told first", []
    if what == REOPENED:
        return f"{simulated}It came back ({context.came_back})", []
    return f"{simulated}Still open since {finding.began}: nobody has dealt with it ({what})", [
        (f"plumbline findings acknowledge {finding.finding_id} --why …", "somebody is on it: no more reminders"),
        (f"plumbline findings snooze {finding.finding_id} --until 14d --why …", "not now"),
    ]
