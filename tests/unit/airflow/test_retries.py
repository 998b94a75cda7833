"""What a task may meet is retried, unless the next try would meet it again."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError, AirflowTaskTimeout, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from pydantic import BaseModel
from sqlalchemy.exc import DatabaseError, OperationalError
from tests.fakes.trials import local_provider

from plumbline.airflow import retries
from plumbline.airflow.defaults import defaults, found_elsewhere, launch_settings
from plumbline.airflow.retries import failing_for_good, request_of
from plumbline.airflow.versions import AirflowFailException
from plumbline.declarations.problems import DeclarationError
from plumbline.launch.plan import PlanError
from plumbline.results import InvalidResult

STEP = defaults("", housekeeping=False)["default_args"]["retry_policy"]
LAUNCH = launch_settings(local_provider())["retry_policy"]


def api_error(status: int | None, kind: ErrorType = ErrorType.API_SERVER_ERROR) -> AirflowRuntimeError:
    """As Airflow's supervisor answers a task: without a status where no connection was made."""
    return AirflowRuntimeError(ErrorResponse(error=kind, detail={"status_code": status, "message": "[Errno 111] Connection refused"}))


def raised(action: Callable[[], Any]) -> BaseException:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


class Answer(BaseModel):
    text: str


def from_an_outage(make: type[Exception]) -> BaseException:
    def action() -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except ConnectionRefusedError as error:
            try:
                raise RuntimeError("the client failed") from error
            except RuntimeError as second:
                raise make("no answer") from second

    return raised(action)


PASSING = {
    "the API server is away": api_error(None),
    "the API server fails": api_error(503),
    "its token expired while it was away": api_error(401),
    "an XCom that is not there yet": api_error(None, ErrorType.XCOM_NOT_FOUND),
    "httpx": httpx.ConnectError("refused"),
    "httpx cut": httpx.RemoteProtocolError("peer closed connection"),
    "a socket": ConnectionRefusedError(111, "Connection refused"),
    "a store": OSError("the store does not answer"),
    "a database": OperationalError("SELECT 1", {}, Exception("server closed the connection")),
    "a database's other error": DatabaseError("SELECT 1", {}, Exception("SSL error: unexpected eof")),
    "the supervisor's socket": EOFError("Request socket closed before length"),
    "JSON that was cut": raised(lambda: json.loads('{"a": ')),
    "text that was cut": raised(lambda: b"\xe2\x82".decode()),
    "an answer of another shape": raised(lambda: Answer.model_validate_json("<html>")),
    "a lookup after an outage": from_an_outage(KeyError),
    "a value after an outage": from_an_outage(ValueError),
    "a connection that is perhaps not defined": AirflowNotFoundException("The conn_id `x` isn't defined"),
}
LASTING = {
    "a bug": TypeError("unsupported operand"),
    "an attribute": AttributeError("'NoneType' object has no attribute 'x'"),
    "a lookup": KeyError("x"),
    "a value": ValueError("x"),
    "an import": ImportError("no module"),
    "a division": ZeroDivisionError("division by zero"),
    "an assertion": AssertionError("x"),
    "a plan": PlanError("expected fewer repeats"),
    "a declaration": DeclarationError("x.yaml: expected a number"),
    "a document": InvalidResult("result.json: checksum"),
    "a paused DAG": DagIsPaused("benchmark_a"),
    "a DAG that is not there": api_error(404),
    "a request that the API refuses": api_error(422),
}


@pytest.mark.fault(
    "Airflow's API is away as a task renders, reads, pushes or defers", ends="retried", keeps="what was measured; a bug ends at once"
)
@pytest.mark.parametrize("error", PASSING.values(), ids=list(PASSING))
@pytest.mark.parametrize("policy", [STEP, LAUNCH], ids=["step", "launch"])
def test_what_may_pass_is_retried(policy: Any, error: BaseException) -> None:
    assert policy.evaluate(error, 1, 3).action == RetryAction.RETRY


@pytest.mark.parametrize("error", LASTING.values(), ids=list(LASTING))
@pytest.mark.parametrize("policy", [STEP, LAUNCH], ids=["step", "launch"])
def test_what_the_next_try_would_meet_again_is_not(policy: Any, error: BaseException) -> None:
    decision = policy.evaluate(error, 1, 3)
    assert decision.action == RetryAction.FAIL and "a retry would fail too" in decision.reason


def test_a_value_error_that_a_client_raises_is_about_an_answer() -> None:
    text = "def read(): raise ValueError('invalid literal for int() with base 16')"
    client: dict[str, Any] = {"__name__": "httpcore._sync.http11"}
    exec(text, client)
    ours: dict[str, Any] = {"__name__": "plumbline.workflows.review"}
    exec(text, ours)
    assert STEP.evaluate(raised(client["read"]), 1, 3).action == RetryAction.RETRY
    assert STEP.evaluate(raised(ours["read"]), 1, 3).action == RetryAction.FAIL


def test_an_outage_that_was_dealt_with_explains_no_later_error() -> None:
    def action() -> None:
        try:
            raise api_error(None)
        except AirflowRuntimeError:
            raise TypeError("a bug") from None

    assert STEP.evaluate(raised(action), 1, 3).action == RetryAction.FAIL


def test_only_a_launch_that_hung_is_not_tried_again() -> None:
    assert STEP.evaluate(AirflowTaskTimeout(), 1, 3).action == RetryAction.RETRY
    assert LAUNCH.evaluate(AirflowTaskTimeout(), 1, 3).action == RetryAction.FAIL


class Try:
    """What Airflow says of a try: `max_tries` is the number of its retries, and more once the task was cleared."""

    run_id = "scheduled__2026-11"

    def __init__(self, max_tries: int, retries: int = 2) -> None:
        self.max_tries, self.task = max_tries, self
        self.retries = retries


def test_a_cleared_task_is_another_request_and_a_retry_is_not() -> None:
    assert request_of(Try(2)) == request_of(Try(2)) != request_of(Try(1 + 2))
    assert request_of(Try(1 + 2)) != request_of(Try(3 + 2))


@pytest.fixture
def without_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Airflow 3.1 and 3.2."""
    monkeypatch.setattr(retries, "RETRY_POLICIES", False)


@pytest.mark.usefixtures("without_policies")
def test_without_policies_what_lasts_fails_for_good_and_the_rest_stays_as_it_is() -> None:
    assert retries.policy() == {} and retries.policy(launches=True) == {}
    lasting = PlanError("no such workload")
    with pytest.raises(AirflowFailException, match="PlanError: a retry would fail too: no such workload"), failing_for_good(launches=False):
        raise lasting
    for passing in PASSING.values():
        with pytest.raises(type(passing)) as seen, failing_for_good(launches=False):
            raise passing
        assert seen.value is passing


@pytest.mark.usefixtures("without_policies")
def test_without_policies_only_a_launch_that_hangs_fails_at_its_timeout() -> None:
    with pytest.raises(AirflowTaskTimeout), failing_for_good(launches=False):
        raise AirflowTaskTimeout("20 min")
    with pytest.raises(AirflowFailException), failing_for_good(launches=True):
        raise AirflowTaskTimeout("20 min")


@pytest.mark.usefixtures("without_policies")
def test_without_policies_a_task_keeps_its_signature_and_marks() -> None:
    @retries.task(launches=True)
    @found_elsewhere
    def step(spec: str, *, ti: Any = None) -> str:
        raise PlanError(spec)

    function = step.function
    assert list(inspect.signature(function).parameters) == ["spec", "ti"] and function.found_elsewhere
    with pytest.raises(AirflowFailException):
        function("nothing")
