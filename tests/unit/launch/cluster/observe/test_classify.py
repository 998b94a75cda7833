"""Each way in which a launch can fail gets its class, and a sentence that names the pod, what Kubernetes said, and what to look at."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from tests.data.cluster_scenes import NAMES, scene
from tests.golden import Golden

from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, StopReason, describe_pod
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import FailureClass, Reason, Validity

VALID = Validity(status="valid")


def failed(failure: FailureClass, detail: str = "the document says so") -> Validity:
    return Validity(status="failed", failure_class=failure, reasons=(Reason(code=failure, detail=detail),))


CLEARED: tuple[StopReason, str] = ("killed", "the task was cleared")
SILENT: tuple[StopReason, str] = ("unreachable", "no answer for 900 s")

FROM_PODS: dict[str, FailureClass] = {
    "exit-3": "harness_error",
    "oom-killed": "out_of_memory",
    "crashed": "harness_error",
    "err-image-pull": "image_error",
    "invalid-image-name": "image_error",
    "missing-secret": "bad_declaration",
    "no-such-command": "image_error",
    "evicted-api": "interrupted",
    "evicted-ephemeral-storage": "bad_declaration",
    "evicted-memory": "interrupted",
    "deleted": "interrupted",
    "deadline-exceeded": "timeout",
    "out-of-cpu": "bad_declaration",
    "unexpected-admission": "launch_timeout",
    "preempted": "interrupted",
    "tainted": "interrupted",
    "tainted-old": "interrupted",
    "node-shutdown": "interrupted",
    "node-lost": "interrupted",
    "kueue-preempted": "interrupted",
    "gang-oom": "out_of_memory",
}
WITHOUT_FAILURE = {"success", "pulled", "kueue-admitted", "gang", "unschedulable-gpus", "unschedulable-selector", "kueue-gated"}


def test_every_scene_is_judged() -> None:
    assert set(NAMES) == FROM_PODS.keys() | WITHOUT_FAILURE


@pytest.mark.parametrize("name", sorted(FROM_PODS))
def test_what_befell_the_pods(name: str) -> None:
    failure_class, detail = classify_launch(scene(name), None)
    assert failure_class == FROM_PODS[name], detail


def test_a_failure_names_the_pod_what_kubernetes_said_and_what_to_look_at(golden: Golden) -> None:
    golden("launch.failed_pods", "\n".join(f"{name}: {classify_launch(scene(name), None)[1]}" for name in sorted(FROM_PODS)))


@pytest.mark.parametrize("name", ["success", "pulled", "kueue-admitted", "gang"])
def test_a_measured_trial_has_no_class(name: str) -> None:
    assert classify_launch(scene(name), VALID) == (None, None)


def test_a_pod_that_is_done_without_its_document_is_an_error_of_the_harness() -> None:
    found, detail = classify_launch(scene("success"), None)
    assert found == "harness_error" and detail is not None
    assert "pod success" in detail and "launcher.results_url" in detail


def test_a_failed_document_names_the_class() -> None:
    detail = "4 GPUs, not 8"
    assert classify_launch(scene("exit-3"), failed("wrong_hardware", detail)) == ("wrong_hardware", detail)
    assert classify_launch(scene("success"), failed("server_error"))[0] == "server_error"


def test_the_cluster_knows_better_than_the_document_why_the_harness_was_stopped() -> None:
    assert classify_launch(scene("deadline-exceeded"), failed("interrupted"))[0] == "timeout"
    assert classify_launch(scene("oom-killed"), failed("harness_error"))[0] == "out_of_memory"
    assert classify_launch(scene("deleted"), failed("harness_error"))[0] == "interrupted"


def test_a_document_that_contradicts_its_exit_code_is_not_believed() -> None:
    found, detail = classify_launch(scene("exit-3"), VALID)
    assert found == "harness_error"
    assert (detail or "").endswith(VALID.status)


@pytest.mark.parametrize("name", ["evicted-memory", "deleted", "oom-killed"])
def test_what_befell_a_pod_after_its_document_was_written_changes_nothing(name: str) -> None:
    seen = scene(name)
    if name == "deleted":  # its exit code would say that its document is a failed one
        pod = copy.deepcopy(seen.pods[0])
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 0
        seen = replace(seen, pods=(pod,))
    assert classify_launch(seen, VALID) == (None, None)


# What we stopped it for.

STOPS: list[tuple[str, StopReason, str, FailureClass]] = [
    ("unschedulable-gpus", "schedule_timeout", "no node in time", "launch_timeout"),
    ("unschedulable-selector", "schedule_timeout", "no node in time", "bad_declaration"),
    ("kueue-gated", "schedule_timeout", "no node in time", "quota_exceeded"),
    ("success", "schedule_timeout", "1 of 2 pods exist", "launch_timeout"),
    ("success", "schedule_timeout", 'Error creating: pods "x" is forbidden: exceeded quota: q', "quota_exceeded"),
    ("err-image-pull", "image_error", "pod x cannot start: ErrImagePull", "image_error"),
    ("missing-secret", "config_error", 'secret "results" not found', "bad_declaration"),
    ("deleted", *CLEARED, "interrupted"),
    ("success", "deadline", "still running", "timeout"),
    ("unschedulable-gpus", *SILENT, "unreachable"),
]


def stopped(name: str, reason: StopReason, detail: str) -> tuple[FailureClass | None, str | None]:
    seen = scene(name, (reason, detail))
    return classify_launch(replace(seen, pods=running(seen)) if name == "success" else seen, None)


@pytest.mark.parametrize(("name", "reason", "detail", "expected"), STOPS)
def test_what_it_was_stopped_for(name: str, reason: StopReason, detail: str, expected: FailureClass) -> None:
    failure_class, text = stopped(name, reason, detail)
    assert failure_class == expected
    assert text is not None and text.startswith(detail)


@pytest.mark.parametrize(
    ("code", "reason", "said", "expected"),
    [
        (137, "OOMKilled", "", "out_of_memory"),
        (128, "StartError", 'exec: "vllm": executable file not found in $PATH', "image_error"),
        (2, "Error", "unrecognized arguments: --prot", "server_error"),
        (1, "Error", "an earlier one was (OOMKilled)", "server_error"),
        (1, "Error", "CUDA error: uncorrectable ECC error encountered", "provider_fault"),
        (0, "Completed", "bye", "server_error"),
    ],
)
def test_a_server_that_crashes_is_judged_by_its_last_end(code: int, reason: str, said: str, expected: FailureClass) -> None:
    seen = ended(code, said, reason)
    seen.pods[0]["status"]["phase"] = "Running"  # as of every pod whose container is restarted
    status = seen.pods[0]["status"]["containerStatuses"][0]
    status |= {"lastState": status["state"], "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}
    failure_class, text = classify_launch(replace(seen, stop=StopCause("server_crashes", "it crashed")), None)
    assert failure_class == expected and str(text).startswith("it crashed: ") and said in str(text), text


def test_what_kept_the_servers_from_serving_has_been_judged_by_their_pods() -> None:
    seen = scene("unschedulable-gpus")
    stop = StopCause("no_servers", "servers: no room", judged="insufficient_capacity")
    assert classify_launch(replace(seen, stop=stop), None) == ("insufficient_capacity", "servers: no room")


def test_a_stop_says_what_to_look_at(golden: Golden) -> None:
    golden("launch.stopped", "\n".join(f"{name}: {stopped(name, reason, detail)[1]}" for name, reason, detail, _ in STOPS))


def running(seen: LaunchObservation) -> tuple[dict[str, Any], ...]:
    pods = copy.deepcopy(seen.pods)
    for pod in pods:
        pod["status"]["phase"] = "Running"
        pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "2026-11-21T03:21:17Z"}}
    return pods


def test_a_slow_pull_is_named() -> None:
    late: tuple[StopReason, str] = ("startup_timeout", "pod x did not start")
    found, detail = classify_launch(scene("err-image-pull", late), None)
    assert (found, "launcher.startup_timeout" in (detail or "")) == ("launch_timeout", True)
    assert classify_launch(scene("missing-secret", late), None) == ("launch_timeout", late[1])
    mount: StopCause = StopCause("startup_timeout", 'FailedMount: MountVolume.SetUp failed for volume "v" : configmap "plan" not found')
    assert classify_launch(scene("err-image-pull", mount), None)[0] == "bad_declaration"


@pytest.mark.parametrize(
    ("status", "detail", "expected"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=8', "quota_exceeded"),
        (403, 'pods "x" is forbidden: failed quota: q: must specify limits.cpu', "bad_declaration"),
        (403, 'User "launcher" cannot create resource "pods"', "bad_declaration"),
        (422, "spec.containers[0].image: Required value", "bad_declaration"),
        (400, "json: cannot unmarshal", "bad_declaration"),
        (404, 'namespaces "plumbline" not found', "bad_declaration"),
        (409, "the name is taken", "bad_declaration"),
        (401, "Unauthorized", "unreachable"),
        (429, "too many requests", "unreachable"),
        (503, "the server is starting", "unreachable"),
    ],
)
def test_what_the_cluster_refused(status: int, detail: str, expected: FailureClass) -> None:
    found, said = classify_launch(LaunchObservation(expected=1, stop=StopCause("refused", detail, status)), None)
    assert (found, detail in (said or "")) == (expected, True)


def test_rights_do_not_come_back_but_tokens_do() -> None:
    forbidden, unauthorized = (LaunchObservation(expected=1, stop=StopCause(*SILENT, status)) for status in (403, 401))
    assert classify_launch(forbidden, None)[0] == "bad_declaration"
    found, detail = classify_launch(unauthorized, None)
    assert (found, "launcher.connection" in (detail or "")) == ("unreachable", True)


def test_a_document_outweighs_an_outage() -> None:
    assert classify_launch(scene("success", SILENT), VALID) == (None, None)


def test_what_we_killed_was_not_deleted_by_a_stranger() -> None:
    assert classify_launch(scene("deleted", CLEARED), None) == ("interrupted", CLEARED[1])
    assert classify_launch(scene("deleted", SILENT), None)[0] == "interrupted"
    assert classify_launch(scene("oom-killed", CLEARED), None)[0] == "out_of_memory"


def test_what_a_pod_did_by_itself_outweighs_an_outage_but_not_our_own_deadline() -> None:
    assert classify_launch(scene("oom-killed", SILENT), None)[0] == "out_of_memory"
    assert classify_launch(scene("exit-3", ("deadline", "too late")), failed("interrupted"))[0] == "timeout"


# Pods.


def test_nothing_there_and_nothing_known() -> None:
    assert classify_launch(LaunchObservation(expected=1), None)[0] == "interrupted"


def test_a_pod_that_vanished_while_it_ran() -> None:
    seen = scene("success")
    (pod,) = running(seen)
    found, detail = classify_launch(replace(seen, pods=(pod,), gone=frozenset({"success"})), None)
    assert found == "interrupted"
    assert "pod success" in (detail or "") and describe_pod(pod) in (detail or "")


def test_a_pod_that_was_tidied_away_after_it_ended_failed_by_itself() -> None:
    seen = scene("exit-3")
    pod = copy.deepcopy(seen.pods[0])
    pod["metadata"].update(deletionTimestamp="2026-11-21T03:50:30Z", deletionGracePeriodSeconds=30)
    assert classify_launch(replace(seen, pods=(pod,)), failed("server_error"))[0] == "server_error"


def test_a_launch_that_was_ended_with_its_pods_still_running() -> None:
    seen = scene("success")
    (pod,) = running(seen)
    found, detail = classify_launch(replace(seen, pods=(pod,)), None)
    assert (found, f"pod success {describe_pod(pod)}" in (detail or "")) == ("interrupted", True)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (1, "s3://bucket: the result document could not be stored: timeout", "unreachable"),
        (1, "Traceback (most recent call last):\nRuntimeError: oh", "harness_error"),
        (1, "/usr/bin/python3: No module named plumbline", "image_error"),
        (2, "trial.json: workload: expected …", "bad_declaration"),
        (3, "failed: loss is not finite", "harness_error"),
        (139, "", "harness_error"),
        (134, "terminate called: CUDA error: uncorrectable ECC error encountered", "provider_fault"),
        (143, "", "interrupted"),
        (137, "", "interrupted"),
    ],
)
def test_exit_codes(code: int, message: str, expected: FailureClass) -> None:
    assert classify_launch(ended(code, message), None)[0] == expected


def ended(code: int, message: str, reason: str = "Error") -> LaunchObservation:
    seen = scene("exit-3")
    pod = copy.deepcopy(seen.pods[0])
    pod["status"]["containerStatuses"][0]["state"]["terminated"].update(exitCode=code, message=message, reason=reason)
    return replace(seen, pods=(pod,))


def test_a_kill_with_an_event_of_the_kernel_is_memory() -> None:
    seen = ended(137, "")
    event = {
        "involvedObject": {"name": "exit-3"},
        "type": "Warning",
        "reason": "OOMKilling",
        "message": "Killed process 7 (python3)",
        "eventTime": "2026-11-21T03:21:18.000000Z",
    }
    assert classify_launch(replace(seen, events=(*seen.events, event)), None)[0] == "out_of_memory"


def test_a_node_that_cannot_give_its_gpus() -> None:
    message = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    found, detail = classify_launch(ended(128, message, "StartError"), None)
    assert (found, message in (detail or "")) == ("wrong_hardware", True)


def test_memory_that_is_too_little_to_start() -> None:
    seen = ended(128, "container init was OOM-killed (memory limit too low?)", "StartError")
    assert classify_launch(seen, None)[0] == "out_of_memory"


# Gangs.


def test_the_first_pod_that_failed_decides() -> None:
    assert classify_launch(scene("gang-oom"), failed("harness_error"))[0] == "out_of_memory"
    seen = scene("gang-oom")
    first, second = copy.deepcopy(seen.pods)
    second["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-11-21T02:21:30Z"
    assert classify_launch(replace(seen, pods=(first, second)), failed("server_error"))[0] == "server_error"


def test_in_the_same_second_what_the_cluster_tells_counts_before_an_exit_code() -> None:
    seen = scene("gang-oom")
    first, second = copy.deepcopy(seen.pods)
    second["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-11-21T02:21:09Z"
    assert classify_launch(replace(seen, pods=(first, second)), None)[0] == "out_of_memory"


def test_a_gang_that_lost_a_follower_after_it_was_measured_is_measured() -> None:
    seen = scene("gang")
    first, second = copy.deepcopy(seen.pods)
    second["status"]["containerStatuses"][0]["state"]["terminated"].update(exitCode=3, reason="Error")
    second["status"]["phase"] = "Failed"
    assert classify_launch(replace(seen, pods=(first, second)), VALID) == (None, None)
