"""Setting a measurement right by hand: another verdict on it, or a document of the quarantine that can be believed now. No Airflow in here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plumbline.declarations import places
from plumbline.launch import evidence_limits, stores
from plumbline.results import BadResult, Reason, ResultDocument, ResultStore, addresses, expired, signing
from plumbline.results.quarantine import FOLDER

if TYPE_CHECKING:
    from plumbline.archive import Archive, TrialView
    from plumbline.archive.views import Action

BY_HAND = "verdict_by_hand"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retried:
    """What became of a document of the quarantine. `attempt`: as which it counts now; None if it is still not believed, for `reason`."""

    quarantine_id: str
    attempt: int | None
    reason: str


def judge(archive: Archive, trial_id: str, attempt: int, action: Action, by: str, why: str) -> int:
    """Give a recorded attempt another verdict: its document is recorded again as a new attempt, which stands in its place.

    The new attempt's number. LookupError without such an attempt; ValueError without who and why, for the verdict that it has, or if it was corrected already.
    """
    _said(by, why)
    document = archive.document(trial_id, attempt)
    if document is None:
        raise LookupError(_not_there(archive, trial_id, attempt))
    held = next(t for t in archive.trials(document.trial.campaign_id, document.trial.series_key) if _is(t, trial_id, attempt))
    if held.corrected:
        raise ValueError(f"{trial_id}#{attempt} was corrected already; expected the attempt that stands in its place")
    if held.quality_action == action:
        raise ValueError(f"{trial_id}#{attempt} has the verdict {action} already; expected another one")
    return record_as_correction(archive, document, attempt, held.uri, action, (Reason(code=BY_HAND, detail=why),), by, why)


def retry(archive: Archive, quarantine_id: str, by: str) -> Retried:
    """Look again at a document of the quarantine: what holds now, and passes the quality checks, is recorded in the place of what stands
    in the archive for its attempt, and released.

    LookupError for an unknown id; FileNotFoundError if the store no longer has it.
    """
    held = archive.quarantined_one(quarantine_id)
    if held.state == "released":
        return Retried(quarantine_id, None, "it was released before")
    try:
        store = ResultStore(addresses.permitted(held.uri).rpartition(f"/{FOLDER}/")[0])
    except BadResult as error:
        return Retried(quarantine_id, None, str(error))
    folder = f"{held.campaign_id}/{held.trial_id}/attempt-{held.attempt}"
    path = held.uri.removeprefix(f"{store.url}/")
    try:
        document = signing.collected(_believed(store, folder, path), archive.signing_keys(held.campaign_id, held.trial_id))
    except ValueError as error:  # a BadResult, or a signature that does not hold
        return Retried(quarantine_id, None, str(error))
    action, reasons = _checked(document)
    if action == "reject":
        return Retried(quarantine_id, None, "; ".join(f"{reason.code}: {reason.detail}" for reason in reasons))
    why = f"in quarantine: {held.reason}; it holds now"
    if any(_is(t, held.trial_id, held.attempt) for t in archive.trials(held.campaign_id, document.trial.series_key)):
        attempt = record_as_correction(archive, document, held.attempt, store.uri(folder), action, reasons, by, why)
    else:
        attempt = held.attempt
        _record(archive, document, store.uri(folder), action, reasons)
    archive.release(quarantine_id, by, why)
    return Retried(quarantine_id, attempt, why)


def retry_all(archive: Archive, by: str) -> list[Retried]:
    """Look again at everything that is kept; one that the archive refuses or the store has lost keeps nothing else from its second look."""
    from plumbline.archive import Refused

    done = []
    for held in archive.quarantined():
        try:
            done.append(retry(archive, held.quarantine_id, by))
        except (Refused, FileNotFoundError) as error:
            done.append(Retried(held.quarantine_id, None, str(error)))
    return done


def _believed(store: ResultStore, folder: str, path: str) -> ResultDocument:
    document = store.document_at(path)
    wrong = evidence_limits.exceeded(document) or store.damaged_evidence(document)
    if document.trial != store.trial(folder):
        wrong.append(f"{store.uri(path)} is not of what {folder}/trial.json asks for")
    if wrong:
        raise BadResult("; ".join(wrong))
    record = store.launch(folder)
    return document if record is None else document.with_launch(record)


def _checked(document: ResultDocument) -> tuple[Action, tuple[Reason, ...]]:
    from plumbline.quality import check

    name = f"{document.trial.trial_id}-again"
    verdict = check([document], [document.trial], places().data_docs, name).verdicts[f"{document.trial.trial_id}#{document.trial.attempt}"]
    return verdict.action, verdict.reasons


def record_as_correction(
    archive: Archive,
    document: ResultDocument,
    corrects: int,
    evidence_of: str,
    action: Action,
    reasons: Sequence[Reason],
    by: str,
    why: str,
) -> int:
    """Store the document as the trial's next attempt, with its evidence, and record that as the correction."""
    from plumbline.results.launch_metrics import outside_metrics

    home, before = stores.home(), _readable(evidence_of)
    last = max(
        t.attempt for t in archive.trials(document.trial.campaign_id, document.trial.series_key) if t.trial_id == document.trial.trial_id
    )
    asked = stores.next_attempt(document.trial.model_copy(update={"attempt": last + 1}), home)
    fields = {name: getattr(document, name) for name in type(document).model_fields if name not in ("trial", "checksum")}
    if (signature := document.signature) is not None:
        fields["signature"] = signature.model_copy(update={"attempt": signature.attempt or document.trial.attempt})
    new = ResultDocument.sealed(trial=asked, **fields)
    if before is not None:
        for item in new.evidence:
            with suppress(FileNotFoundError):  # what is lost already must not keep anybody from rejecting the numbers; verify names it
                stores.copy_evidence(item, before, "", home, home.folder(asked))
        if gone := expired.note(before, ""):
            expired.put(home, home.folder(asked), gone.files, gone.expired_at, gone.rule)
    home.put_trial(asked)
    home.put_document(new)
    folder = home.put_collected(new)
    extra = outside_metrics(new.launch) if new.launch else ()
    archive.correct(new, corrects, by=by, why=why, action=action, quality_reasons=reasons, uri=home.uri(folder), extra_metrics=extra)
    return asked.attempt


def _readable(folder: str) -> ResultStore | None:
    """The attempt's folder as a store; None if it lies outside of the declared ones, as that of an imported campaign may."""
    try:
        return ResultStore(addresses.permitted(folder))
    except BadResult as error:
        _log.warning("its evidence is not copied: %s", error)
        return None


def _record(archive: Archive, document: ResultDocument, uri: str, action: Action, reasons: Sequence[Reason]) -> None:
    from plumbline.results.launch_metrics import outside_metrics

    extra = outside_metrics(document.launch) if document.launch else ()
    archive.record(document, action=action, quality_reasons=reasons, uri=uri, extra_metrics=extra)


def _not_there(archive: Archive, trial_id: str, attempt: int) -> str:
    if archive.imported(trial_id) is not None:
        return f"{trial_id} is imported: its publisher's verdict stands"
    last = archive.document(trial_id)
    if last is None:
        return f'the archive has no trial "{trial_id}"; the reports and pages of its campaign name its trials'
    held = archive.trials(last.trial.campaign_id, last.trial.series_key)
    return f"{trial_id} has no attempt {attempt}; expected one of {', '.join(str(t.attempt) for t in held if t.trial_id == trial_id)}"


def _is(view: TrialView, trial_id: str, attempt: int) -> bool:
    return (view.trial_id, view.attempt) == (trial_id, attempt)


def _said(by: str, why: str) -> None:
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who judges the measurement and why")
