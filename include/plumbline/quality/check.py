"""Checks a campaign's results as tables: well-formed, plausible, complete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from plumbline.declarations import Trial
from plumbline.declarations.teams import KINDS
from plumbline.quality.report import QualityReport, Verdict
from plumbline.results import Reason, ResultDocument
from plumbline.results.document import MACHINE_BUSY


def spoilt_by_load(documents: Sequence[ResultDocument]) -> dict[str, Reason]:
    """By attempt, why a busy machine's results do not count: where other load made one trial's last attempt invalid, or half of them less than
    valid, all that it reached. Only of trials on this machine's cores: on a provider's node a neighbour is a fact about the provider."""
    last = {d.trial.trial_id: d for d in sorted(documents, key=lambda d: d.trial.attempt) if d.trial.provider.launcher.cpus_here}
    reached = [d for d in last.values() if d.contended]
    if not any(d.validity.status == "invalid" for d in reached) and 2 * len(reached) < max(len(last), 1):
        return {}
    return {
        f"{d.trial.trial_id}#{d.trial.attempt}": Reason(code=MACHINE_BUSY, detail=f"others used {d.foreign_cpu:.0%} of the trial's cores")
        for d in reached
    }


def check(documents: Sequence[ResultDocument], planned: Sequence[Trial], docs: Path, name: str) -> QualityReport:
    """The verdict on each document, and pages that say why, kept under `docs/name/`.

    `planned`: every trial that should have a document. Rejected are attempts for which a critical expectation fails, annotated those
    for which a warning does; what is wrong with the table as a whole is in `problems`. A second check of the same name replaces
    its pages. ValueError for a name that is no folder name.
    """
    # These take seconds to import; whoever only reads a report goes without them.
    from plumbline.quality import attempt_rows
    from plumbline.quality.data_docs import write_site
    from plumbline.quality.suites import attempts_suite, facts_suite, numbers_suite
    from plumbline.quality.validation import validate

    outcomes = [validate(attempts_suite(planned), attempt_rows.attempts_table(documents, planned, datetime.now(timezone.utc)))]
    for kind in KINDS:
        if len(facts := attempt_rows.facts_table(documents, kind)):
            outcomes.append(validate(facts_suite(kind), facts))
            outcomes.append(validate(numbers_suite(kind), attempt_rows.numbers_table(documents, kind)))
    keys = [attempt_rows.attempt_key(document) for document in documents]
    verdicts = {key: Verdict() for key in keys}
    for key, reason in spoilt_by_load(documents).items():
        verdicts[key] = verdicts[key].with_reason("critical", reason)
    problems: list[Reason] = []
    for outcome in outcomes:
        for failure in outcome.failures:
            for key, detail in failure.details.items():
                verdicts[key] = verdicts[key].with_reason(failure.severity, Reason(code=failure.code, detail=detail))
            if not failure.details:
                problems.append(Reason(code=failure.code, detail=failure.says))
    success = not problems and all(verdict.action != "reject" for verdict in verdicts.values())
    index = write_site(docs, name, outcomes, verdicts, problems, success)
    return QualityReport(success, verdicts, tuple(problems), index)
