"""What became of a local trial: its failure class, from how its process ended and what it left in the store."""

from __future__ import annotations

import re
import signal

from plumbline.launch.process import Ended
from plumbline.results import BadResult, FailureClass, ResultStore, log_block

DONE, STORE_FAILED, UNUSABLE_INPUT, FAILED = 0, 1, 2, 3
"""Exit statuses of `python -m plumbline.harness run`; 1 also of Python itself, when it dies of an exception."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_QUOTED_LINES = 5
_STORE_AWAY = re.compile("the result document could not be stored|: nothing was measured|: the specification could not be read")
"""How the harness says so; exit status 1 alone is also that of any exception."""
_PRINTED = re.compile(rf"{log_block.MARK} |[A-Za-z0-9+/=]{{200,}}$")
"""A line of a printed result, or the end of one that a container's status cut."""

Outcome = tuple[FailureClass | None, str | None]


def outcome(ended: Ended, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    """Failure class and detail of the attempt in `folder`; (None, None) if it left a document that holds and did not fail."""
    if ended.stopped is not None:
        return ("out_of_memory" if ended.stopped == "memory" else "timeout"), ended.detail
    if ended.code in (DONE, FAILED):
        return _documented(ended.code, store, folder, log_tail)
    said = last_lines(log_tail)
    if ended.code == STORE_FAILED and _STORE_AWAY.search(log_tail):
        if _holds(store, folder):  # the harness printed it, and the launcher brought it home
            return _documented(None, store, folder, log_tail)
        return "unreachable", f"the result store did not take the document: {said}"
    if ended.code == UNUSABLE_INPUT:
        return "bad_declaration", f"the harness could not use what it was given: {said}"
    if ended.code < 0:
        name = _signal_name(-ended.code)
        if -ended.code in _FROM_OUTSIDE:
            return "interrupted", f"the harness was ended by {name}, which the launcher did not send"
        return "harness_error", f"the harness was ended by {name}: {said}"
    return "harness_error", f"the harness ended with exit status {ended.code}: {said}"


def _holds(store: ResultStore, folder: str) -> bool:
    try:
        return store.exists(f"{folder}/result.json")
    except OSError:
        return False


def _documented(code: int | None, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    try:
        validity = store.document(folder).validity
    except FileNotFoundError:
        return "harness_error", f"the harness ended with exit status {code} but left no result document: {last_lines(log_tail)}"
    except BadResult as error:
        return "harness_error", f"the harness's result document cannot be used: {error}"
    if validity.failure_class is not None:
        return validity.failure_class, "; ".join(reason.detail for reason in validity.reasons)
    if code == FAILED:
        return "harness_error", f"the harness ended with exit status {code} (failed), but its document says {validity.status}"
    return None, None


def last_lines(log_tail: str) -> str:
    """The last few lines of a log's tail, as one; without a result that was printed."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip() and not _PRINTED.match(line.strip())]
    return " | ".join(lines[-_QUOTED_LINES:]) or "it printed nothing"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
