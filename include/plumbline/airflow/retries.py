"""Which errors of a task are worth another try, how a task fails for the others, and what a retry may take from the try before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused
from airflow.sdk import task as airflow_task
from airflow.sdk.exceptions import AirflowRuntimeError
from pydantic import ValidationError

from plumbline.airflow.versions import RETRY_POLICIES, AirflowFailException, AirflowTaskTimeout, RetryDecision, RetryPolicy
from plumbline.launch.failures import RETRIED, DeclaredInterruption, TrialFailure

_LASTING = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    DagIsPaused,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)
_OUTAGES = (AirflowRuntimeError, ConnectionError, TimeoutError)
# Of a lasting kind by their class, but also what a client makes of an answer that was cut or came from a proxy.
_CUT_ANSWERS = (json.JSONDecodeError, UnicodeDecodeError, ValidationError)
_CLIENTS = ("botocore", "h11", "http.", "httpcore", "httpx", "requests", "ssl", "urllib3")
_ANSWERED = (400, 404, 422)
"""HTTP statuses with which Airflow's API answers the same next time."""


class StepRetries(RetryPolicy):  # type: ignore[misc]  # airflow's types are not followed
    """Retries every error, within the task's bounds, but those that a retry would meet again: errors of our code or of a declaration, answers
    of Airflow's API, failure classes that time does not mend.

    `launches`: the task launches trials. A launcher that hangs until Airflow's timeout would hang again.
    """

    def __init__(self, *, launches: bool = False) -> None:
        self._launches = launches

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        name = _class_of(exception)
        if _lasts(exception, launches=self._launches):
            return RetryDecision.fail(f"{name}: a retry would fail too")
        return RetryDecision.retry(reason=f"{name}: a retry may succeed")


def policy(*, launches: bool = False) -> dict[str, Any]:
    """The argument of a task with its retry policy; none where Airflow has no policies."""
    return {"retry_policy": StepRetries(launches=launches)} if RETRY_POLICIES else {}


@contextmanager
def failing_for_good(*, launches: bool) -> Iterator[None]:
    """Without retry policies: raise AirflowFailException, which Airflow does not retry, for what a retry would meet again."""
    if RETRY_POLICIES:
        yield
        return
    try:
        yield
    except (Exception, AirflowTaskTimeout) as error:
        if not _lasts(error, launches=launches):
            raise
        raise AirflowFailException(f"{_class_of(error)}: a retry would fail too: {error}") from error


def task(work: Callable[..., Any] | None = None, /, *, launches: bool = False, **options: Any) -> Any:
    """Airflow's `@task`, whose function fails at once for what a retry would meet again. `launches`: as of `StepRetries`."""

    def decorate(function: Callable[..., Any]) -> Any:
        if RETRY_POLICIES:
            return airflow_task(**options)(function)
        # The marks and the signature of the function stay: Airflow reads them. Its return type it would look for in the wrapper's module.
        return airflow_task(**{"multiple_outputs": False, **options})(failing_for_good(launches=launches)(function))

    return decorate if work is None else decorate(work)


def _class_of(error: BaseException) -> str:
    return str(getattr(error, "failure_class", type(error).__name__))


def _lasts(error: BaseException, *, launches: bool) -> bool:
    return will_recur(error) or (launches and isinstance(error, AirflowTaskTimeout))


def will_recur(error: BaseException) -> bool:
    """Whether a retry would meet the error again."""
    if isinstance(error, TrialFailure):
        return error.failure_class not in RETRIED or isinstance(error, DeclaredInterruption)
    if isinstance(error, AirflowRuntimeError):
        return isinstance(error.error.detail, dict) and error.error.detail.get("status_code") in _ANSWERED
    if isinstance(error, (OSError, *_CUT_ANSWERS)) or not isinstance(error, _LASTING):
        return False
    return not (_raised_in(error).startswith(_CLIENTS) or _follows_an_outage(error))


def _follows_an_outage(error: BaseException) -> bool:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return cause is not None and ((isinstance(cause, _OUTAGES) and not will_recur(cause)) or _follows_an_outage(cause))


def _raised_in(error: BaseException) -> str:
    """The module whose code raised the error; empty if nothing did."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def request_of(ti: Any) -> str:
    """Names what was requested of a task: the same in all its retries, another one once a person clears it, which raises `max_tries`."""
    return f"{ti.run_id} {ti.max_tries - ti.task.retries}"
