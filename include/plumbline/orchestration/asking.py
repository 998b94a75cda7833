"""What a person is asked about a finding, in words. No Airflow in here.

It may be read at night by somebody who has not heard of the finding: what happened and what explains it come first, then what each answer
does to this provider, then what happens without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations

if TYPE_CHECKING:
    from plumbline.drift import Finding

ACCEPT, KEEP, RERUN = "accept as the new baseline", "keep the old one", "rerun on a fresh node"
_MOST_MEMBERS = 10


@dataclass(frozen=True)
class Question:
    """`subject`: one line, severity first. `body`: Markdown."""

    subject: str
    body: str


def question(finding: Finding, declared: Declarations, answer_by: datetime) -> Question:
    """The question about a finding that is open; nobody answering before `answer_by` (UTC) keeps the old baseline."""
    parts = [
        _plain(f"{finding.explanation[:1].upper()}{finding.explanation[1:]}."),
        "\n".join(["**What changed**", "", *_members(finding)]),
        "\n".join(["**What each answer does**", "", *(f"- **{name}**: {_plain(does)}" for name, does in _answers(finding, declared))]),
        f"Without an answer by {answer_by:%Y-%m-%d %H:%M} UTC the old baseline is kept and the finding stays open.",
        "\n".join(["More, in a terminal:", "", *(f"- `{command}`" for command in _commands(finding))]),
    ]
    return Question(finding.headline, "\n\n".join(parts))


def _members(finding: Finding) -> list[str]:
    several = len(finding.series) > 1
    told = [f"- {_plain(m.text)}{_of(m.series_key) if several else ''}" for m in finding.members[:_MOST_MEMBERS]]
    more = len(finding.members) - _MOST_MEMBERS
    return [*told, *([f"- … and {more} more"] if more > 0 else [])]


def _of(series_key: str | None) -> str:
    from plumbline.drift.sample import Series

    if series_key is None:
        return ""
    series = Series.parse(series_key)
    return _plain(f" ({series.kind} {series.workload})")


def _answers(finding: Finding, declared: Declarations) -> list[tuple[str, str]]:
    from plumbline.orchestration.deciding import rerun_of

    series = "the series" if len(finding.standing) == 1 else f"each of the {len(finding.standing)} series"
    old = ", ".join(finding.baseline_campaigns) or "none was measured yet"
    try:
        rerun = rerun_of(declared, finding)
        where = (
            "on nodes that it was not on lately" if "placement" in rerun.conf else "in the same place: this provider has no other to choose"
        )
        again = f"{rerun.dag_id} measures {', '.join(rerun.conf['workloads'])} again, {where}. If the change is still there, you are asked again"
    except ValueError as impossible:
        again = f"cannot be done: {impossible}"
    held = (
        f"From now on {series} is held against its newest campaign that shows it ({finding.campaigns[-1]})"
        if finding.standing
        else "What is seen of the provider from now on is held against it"
    )
    return [
        (ACCEPT, f"this is the new normal. {held}"),
        (
            KEEP,
            f"the baseline stays as it is ({old}). The finding stands, acknowledged, until the provider recovers; nobody is asked again",
        ),
        (RERUN, again),
    ]


def _commands(finding: Finding) -> list[str]:
    return [
        f"plumbline findings show {finding.finding_id}",
        *(
            f"plumbline compare {old} {new} --provider {finding.provider}"
            for old, new in zip(finding.baseline_campaigns[-1:], finding.campaigns[:1], strict=False)
        ),
    ]


def _plain(text: str) -> str:
    """Names and versions as they are: what Markdown would take for emphasis is escaped."""
    for mark in "\\`*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text
