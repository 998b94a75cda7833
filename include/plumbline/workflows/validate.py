"""Validate the collected results of a lane as one table."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from plumbline.archive.shelves import shelf
from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.presentation.written_reports import docs_name
from plumbline.quality import check
from plumbline.results import InvalidResult, Reason, ResultDocument, ResultStore, Validity, quarantine, signing
from plumbline.workflows.lane_outcome import Row

_log = logging.getLogger(__name__)


def validate_group(provider: str, lane: str, specs: Iterable[Mapping[str, str]]) -> list[Row]:
    """Check the campaign's results of one lane as one table; for each trial the verdict on each of its attempts.

    A trial with attempts but no collected result is omitted: clearing its `collect` can still bring the result home.
    """
    store = stores.home()
    wanted = list(specs)
    trials = [stores.planned_trial(store, spec) for spec in wanted]
    documents = [document for trial in trials for document in _collected(store, trial)]
    docs, name = shelf("data_docs"), docs_name(trials[0].campaign_id, f"{provider}-{lane}")
    with docs.writing(name) as folder:
        report = check(documents, trials, folder.parent, name)
    where, passed = docs.address(name, report.data_docs.name), "all pass" if report.success else "not all pass"
    _log.info("%d documents checked, %s; Data Docs: %s", len(documents), passed, where)
    for problem in report.problems:
        _log.warning("%s: %s", problem.code, problem.detail)
    rows: list[Row] = []
    for spec, trial in zip(wanted, trials, strict=True):
        verdicts = []
        for document in (d for d in documents if d.trial.trial_id == trial.trial_id):
            verdict = report.verdicts[f"{trial.trial_id}#{document.trial.attempt}"]
            reasons = [reason.model_dump() for reason in verdict.reasons]
            verdicts.append({"attempt": document.trial.attempt, "action": verdict.action, "reasons": reasons})
        if not verdicts and (launched := store.announced(trial.campaign_id, trial.trial_id)):
            # `record` quarantines a document that was damaged since, and records nothing.
            spoilt = [folder for folder in launched if store.exists(f"{folder}/collected.json")]
            verdicts = [{"attempt": int(folder.rpartition("-")[2]), "action": "reject", "reasons": []} for folder in spoilt]
            _log.error("%s has attempts but no collected result and is not recorded; clear its `collect` task", trial.trial_id)
            if not verdicts:
                continue
        rows.append({**spec, "verdicts": verdicts or [_record_missing(store, trial)]})
    return rows


def _collected(store: ResultStore, trial: Trial) -> list[ResultDocument]:
    """The collected documents; the completeness check reports missing ones. Documents damaged since go into quarantine."""
    documents = []
    for folder in store.attempts(trial.campaign_id, trial.trial_id):
        if store.correction(folder) is not None or not store.exists(f"{folder}/collected.json"):
            continue
        try:
            documents.append(store.collected(folder))
        except InvalidResult as error:
            _log.error("%s", error)
            quarantine.put(store, folder, "collected.json", str(error))
    return documents


def _record_missing(store: ResultStore, trial: Trial) -> Row:
    """A planned trial without any attempt becomes a document too: missing is a fact, not a failure of the provider."""
    reason = Reason(code="never_launched", detail="planned, but no attempt of it reached the result store")
    document = ResultDocument.sealed(
        trial=trial,
        harness_version=signing.UNKNOWN_HARNESS,
        simulated=trial.provider.simulated,
        validity=Validity(status="missing", reasons=(reason,)),
    )
    store.put_collected(document)
    return {"attempt": trial.attempt, "action": "accept", "reasons": []}
