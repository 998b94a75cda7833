from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.golden import Golden

from plumbline.launch.cluster.names import RANK
from plumbline.launch.cluster.observe.observation import Row, StopCause, describe_pod
from plumbline.launch.cluster.observe.pod_watch import PodWatch, WatchDecision, WatchLimits

T0 = 1_700_000_000.0
LIMITS = WatchLimits(
    expected=1, requested_at=T0, schedule_timeout_s=600, startup_timeout_s=300, deadline=T0 + 5000, patience_s=160, grace_s=60
)
GANG = replace(LIMITS, expected=2)


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(rank: int = 0, *, state: Row | None = None, node: str | None = "node-1", at: float = T0, phase: str | None = None) -> Row:
    """A pod that got its node at `at`; `state` is its harness container's, `phase` follows from it if left out."""
    status: dict[str, Any] = {"phase": "Pending", "conditions": []}
    if node:
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(at)}]
    if state is not None:
        ended = state.get("terminated")
        follows = "Running" if "running" in state else "Pending" if ended is None else "Failed" if ended["exitCode"] else "Succeeded"
        status |= {"phase": follows, "containerStatuses": [{"name": "harness", "state": state}]}
    if phase:
        status["phase"] = phase
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": f"pl-a-{rank}", "uid": f"uid-{rank}", "labels": {RANK: str(rank)}}, "spec": spec, "status": status}


def runs(rank: int = 0, **more: Any) -> Row:
    return pod(rank, state={"running": {"startedAt": stamp(T0)}}, **more)


def ended(rank: int = 0, code: int = 0, **more: Any) -> Row:
    return pod(rank, state={"terminated": {"exitCode": code}}, **more)


def waits(reason: str, message: str = "", rank: int = 0) -> Row:
    return pod(rank, state={"waiting": {"reason": reason, "message": message}})


NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def unplaced(message: str = NO_ROOM, rank: int = 0) -> Row:
    row = pod(rank, node=None)
    row["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    return row


def event(message: str, *, uid: str = "e1", reason: str = "FailedScheduling", kind: str = "Warning", rank: int = 0) -> Row:
    about = {"kind": "Pod", "name": f"pl-a-{rank}"}
    return {
        "metadata": {"uid": uid},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": stamp(T0),
    }


def status_line(row: Row) -> str:
    return f"pod {row['metadata']['name']} {describe_pod(row)}"


def heard(row: Row) -> str:
    return f"pod {row['involvedObject']['name']}: {row['reason']}: {row['message']}"


def look(watch: PodWatch, *pods: Row, after: float = 1.0, skew: float = 0.0) -> WatchDecision | None:
    return watch.look(pods, T0 + after, T0 + after + skew)


def stopped(decision: WatchDecision | None) -> StopCause:
    assert decision is not None
    assert decision.status == "stopped"
    assert decision.stop is not None
    return decision.stop


def status(decision: WatchDecision | None) -> str | None:
    return decision and decision.status


def test_a_pods_life_is_told_twice_that_it_started_and_that_it_is_over() -> None:
    watch = PodWatch(LIMITS)
    assert look(watch, pod(node=None)) is None
    assert look(watch, waits("ContainerCreating")) is None
    assert status(look(watch, runs())) == "started"
    assert look(watch, runs()) is None
    assert status(look(watch, ended())) == "finished"


def test_a_pod_that_ended_between_two_looks_is_finished_at_once() -> None:
    assert status(look(PodWatch(LIMITS), ended(code=3))) == "finished"


def test_a_watch_that_takes_over_does_not_tell_the_start_again() -> None:
    assert look(PodWatch(LIMITS, started=True), runs()) is None


def test_a_side_car_that_lives_on_does_not_keep_a_trial_alive() -> None:
    assert status(look(PodWatch(LIMITS, started=True), ended(phase="Running"))) == "finished"


def test_a_gang_starts_when_all_of_it_runs_and_ends_when_all_of_it_has_ended() -> None:
    watch = PodWatch(GANG)
    assert look(watch, runs(0), waits("ContainerCreating", rank=1)) is None
    assert status(look(watch, runs(1), runs(0))) == "started"
    assert look(watch, runs(0), ended(1)) is None
    assert status(look(watch, ended(1), ended(0))) == "finished"
    assert [row["metadata"]["name"] for row in watch.seen().pods] == ["pl-a-0", "pl-a-1"]


def test_one_pods_failure_ends_the_gang_after_one_more_look_that_shows_the_others() -> None:
    watch = PodWatch(GANG, started=True)
    assert look(watch, ended(0, 1), runs(1)) is None
    assert watch.settling
    decision = look(watch, ended(0, 1), ended(1, 137))
    assert status(decision) == "finished"
    watch = PodWatch(GANG, started=True)
    look(watch, ended(0, 1), runs(1))
    assert status(look(watch, ended(0, 1), runs(1))) == "finished", "the others are not waited for"


def test_a_failure_while_the_gang_starts_is_no_start() -> None:
    watch = PodWatch(GANG)
    assert look(watch, ended(0, 1), runs(1)) is None
    assert status(look(watch, ended(0, 1), runs(1))) == "finished"


def test_ranks_that_hang_after_rank_0_is_done_are_not_waited_for_beyond_the_grace() -> None:
    watch = PodWatch(GANG, started=True)
    assert look(watch, ended(0), runs(1), after=100) is None
    assert look(watch, ended(0), runs(1), after=159) is None
    assert status(look(watch, ended(0), runs(1), after=160)) == "finished"
    patient = PodWatch(GANG, started=True)
    assert look(patient, runs(0), ended(1), after=100) is None
    assert look(patient, runs(0), ended(1), after=4000) is None, "rank 0 may take its time"


def test_a_pod_that_vanished_is_gone_and_its_last_state_is_kept() -> None:
    watch = PodWatch(LIMITS, started=True)
    assert look(watch, runs()) is None
    assert watch.lacks([])
    assert status(look(watch)) == "finished"
    assert watch.seen().gone == {"pl-a-0"}
    assert watch.seen().pods[0]["spec"]["nodeName"] == "node-1"


def test_a_pod_that_was_known_to_exist_and_is_never_seen_is_gone() -> None:
    watch = PodWatch(LIMITS, known=["pl-a-0"])
    assert status(look(watch)) == "finished"
    assert watch.seen().gone == {"pl-a-0"}
    assert look(PodWatch(LIMITS)) is None, "one that nobody created yet may still come"


def test_a_pod_that_had_ended_and_was_tidied_away_is_not_gone() -> None:
    watch = PodWatch(GANG, started=True)
    assert look(watch, runs(0), ended(1)) is None
    assert look(watch, runs(0)) is None
    assert status(look(watch, ended(0))) == "finished"
    assert watch.seen().gone == frozenset()


def test_of_a_gang_that_ran_a_missing_pod_without_a_name_ends_it() -> None:
    watch = PodWatch(GANG, started=True)
    assert watch.lacks([runs(0)])
    assert look(watch, runs(0)) is None
    assert status(look(watch, runs(0))) == "finished"


def test_a_pod_whose_node_does_not_answer_its_deletion_is_gone_after_the_grace() -> None:
    row = runs()
    row["metadata"]["deletionTimestamp"] = stamp(T0 + 100)
    watch = PodWatch(LIMITS, started=True)
    assert look(watch, row, after=159) is None
    assert status(look(watch, row, after=160)) == "finished"
    assert watch.seen().gone == {"pl-a-0"}


def test_no_node_in_time_stops_with_the_schedulers_last_words() -> None:
    watch = PodWatch(LIMITS)
    assert look(watch, unplaced("old words"), after=599) is None
    assert f"pl-a-0: {NO_ROOM}" in stopped(look(watch, unplaced(), after=600)).detail
    newer = event("no, still not")
    watch.hear([newer])
    stop = stopped(look(watch, unplaced(), after=601))
    assert stop.reason == "schedule_timeout"
    assert stop.detail.endswith(heard(newer))


def test_a_gang_that_is_placed_in_part_or_created_in_part_has_no_node_in_time() -> None:
    assert stopped(look(PodWatch(GANG), runs(0), unplaced(rank=1), after=600)).reason == "schedule_timeout"
    assert stopped(look(PodWatch(GANG), runs(0), after=600)).reason == "schedule_timeout"
    assert look(PodWatch(GANG), runs(0), after=599) is None


def test_a_pod_that_is_held_back_by_a_queue_has_no_node() -> None:
    row = gated("kueue.x-k8s.io/admission")
    assert "kueue.x-k8s.io/admission" in stopped(look(PodWatch(LIMITS), row, after=600)).detail


def gated(gate: str) -> Row:
    row = pod(node=None)
    row["spec"]["schedulingGates"] = [{"name": gate}]
    return row


def test_a_stop_names_the_pods_the_limit_and_the_reason(golden: Golden) -> None:
    creating, backing_off = waits("ContainerCreating"), PodWatch(LIMITS)
    look(backing_off, waits("ImagePullBackOff"), after=0)
    stops = [
        look(PodWatch(LIMITS), unplaced(), after=600),
        look(PodWatch(LIMITS), gated("kueue.x-k8s.io/admission"), after=600),
        look(PodWatch(GANG), runs(0), unplaced(rank=1), after=600),
        look(PodWatch(GANG), runs(0), after=600),
        look(PodWatch(LIMITS), creating, after=300),
        look(backing_off, waits("ImagePullBackOff", "Back-off pulling"), after=160),
        look(PodWatch(LIMITS, started=True), runs(), after=5000),
    ]
    golden("launch.pod_watch", "\n".join(f"{stop.reason}: {stop.detail}" for stop in map(stopped, stops)))


def test_the_startup_clock_starts_with_the_node_and_is_the_clusters() -> None:
    creating = waits("ContainerCreating")
    late = PodWatch(LIMITS)
    creating["status"]["conditions"][0]["lastTransitionTime"] = stamp(T0 + 500 + 7200)  # a cluster whose clock is two hours ahead
    assert look(late, creating, after=799, skew=7200) is None
    stop = stopped(look(late, creating, after=800, skew=7200))
    assert stop.reason == "startup_timeout"
    assert "pl-a-0" in stop.detail


def test_the_startup_clock_of_a_gang_starts_with_the_last_node() -> None:
    late = pod(1, state={"waiting": {"reason": "ContainerCreating"}}, at=T0 + 200)
    assert look(PodWatch(GANG), runs(0), late, after=499) is None
    assert stopped(look(PodWatch(GANG), runs(0), late, after=500)).reason == "startup_timeout"


@pytest.mark.parametrize(("reason", "kind"), [("ErrImagePull", "image_error"), ("CreateContainerConfigError", "config_error")])
def test_trouble_is_believed_when_it_lasts(reason: str, kind: str) -> None:
    watch = PodWatch(LIMITS)
    assert look(watch, waits(reason), after=10) is None
    assert look(watch, waits(reason), after=169) is None
    stop = stopped(look(watch, waits(reason, "not found"), after=170))
    assert stop.reason == kind
    assert "pl-a-0" in stop.detail and stop.detail.endswith(f"{reason}: not found")


def test_trouble_that_passes_is_forgotten() -> None:
    watch = PodWatch(LIMITS)
    look(watch, waits("ErrImagePull"), after=10)
    look(watch, waits("ContainerCreating"), after=100)
    assert look(watch, waits("ImagePullBackOff"), after=171) is None
    assert status(look(watch, runs(), after=180)) == "started"


def test_a_pod_that_backs_off_is_told_with_the_cause_that_only_its_events_know() -> None:
    watch = PodWatch(LIMITS)
    look(watch, waits("ImagePullBackOff"), after=0)
    cause = "Failed to pull image: not found"
    watch.hear([event(cause, reason="Failed"), event("Error: ErrImagePull", uid="e2", reason="Failed")])
    watch.hear([event("Failed to pull another", uid="e3", reason="Failed", rank=1)])
    stop = stopped(look(watch, waits("ImagePullBackOff", "Back-off pulling"), after=160))
    assert stop.detail.endswith(f"ImagePullBackOff: Back-off pulling; {cause}")


def test_a_wrong_image_name_is_believed_at_once() -> None:
    assert stopped(look(PodWatch(LIMITS), waits("InvalidImageName"))).reason == "image_error"


@pytest.mark.fault("what a pod's network or runtime needs is missing", ends="bad_declaration at once", keeps="its name, and what to create")
def test_a_sandbox_that_can_never_be_made_is_not_waited_for() -> None:
    watch = PodWatch(LIMITS)
    watch.hear([event("failed to allocate for range 0: no IP addresses available in range set", uid="e0", reason="FailedCreatePodSandBox")])
    assert look(watch, pod()) is None, "another pod may end"
    missing = 'network-attachment-definitions.k8s.cni.cncf.io "rdma-net" not found'
    watch.hear([event(missing, reason="FailedCreatePodSandBox")])
    stop = stopped(look(watch, pod()))
    assert (stop.reason, missing in stop.detail) == ("config_error", True)
    started = PodWatch(LIMITS)
    started.hear([event(missing, reason="FailedCreatePodSandBox")])
    assert status(look(started, runs())) == "started", "it was created meanwhile"


def test_a_startup_that_runs_out_of_time_over_an_image_says_so() -> None:
    watch = PodWatch(replace(LIMITS, startup_timeout_s=20))
    assert stopped(look(watch, waits("ErrImagePull"), after=21)).reason == "image_error"


def test_past_the_deadline_a_running_launch_is_stopped_and_an_ended_one_is_not() -> None:
    watch = PodWatch(LIMITS, started=True)
    assert look(watch, runs(), after=4999) is None
    stop = stopped(look(watch, runs(), after=5000))
    assert (stop.reason, status_line(runs()) in stop.detail) == ("deadline", True)
    assert status(look(PodWatch(LIMITS, started=True), ended(), after=5000)) == "finished"


def test_news_are_told_once() -> None:
    watch = PodWatch(LIMITS)
    look(watch, unplaced())
    watch.hear([event("no GPU"), event("fine", uid="e2", reason="Scheduled", kind="Normal")])
    assert watch.news() == [status_line(unplaced()), heard(event("no GPU"))]
    look(watch, unplaced())
    watch.hear([event("no GPU", uid="e3")])
    assert watch.news() == []
    look(watch, ended(code=137))
    assert watch.news() == [status_line(ended(code=137))]


def test_a_watch_that_takes_over_does_not_tell_old_events_again() -> None:
    watch = PodWatch(LIMITS, started=True)
    look(watch, runs(), after=100)
    old, new = event("old"), {**event("new", uid="e2"), "lastTimestamp": stamp(T0 + 100)}
    watch.hear([old, new])
    assert watch.news() == [status_line(runs()), heard(new)]
    assert len(watch.seen().events) == 2


def test_the_oldest_events_are_forgotten_but_not_told_again() -> None:
    watch = PodWatch(LIMITS)
    old = event("old", uid="old")
    watch.hear([old, *({**event("new", uid=f"new-{n}"), "lastTimestamp": stamp(T0 + n)} for n in range(1, 50))])
    assert "old" not in [row["message"] for row in watch.seen().events]
    watch.news()
    watch.hear([old])
    assert watch.news() == []


def test_events_are_asked_about_what_is_waited_for() -> None:
    watch = PodWatch(GANG)
    look(watch, runs(0), unplaced(rank=1))
    assert watch.awaited() == ["pl-a-1"]
    look(watch, runs(0), runs(1))
    assert watch.awaited() == ["pl-a-0", "pl-a-1"]


def test_the_progress_is_rank_0s() -> None:
    watch = PodWatch(GANG)
    assert watch.rank_0() is None
    look(watch, runs(1), runs(0))
    found = watch.rank_0()
    assert found is not None
    assert found["metadata"]["name"] == "pl-a-0"


def test_what_was_seen_is_told_with_the_reason_of_a_stop() -> None:
    watch = PodWatch(LIMITS)
    look(watch, runs())
    watch.hear([event("no GPU")])
    stop = StopCause("unreachable", "no answer", 503)
    seen = watch.seen(stop)
    assert (seen.expected, len(seen.pods), len(seen.events), seen.stop) == (1, 1, 1, stop)
    assert watch.seen().stop is None


def made_at(row: Row, at: float = T0) -> Row:
    return {**row, "metadata": {**row["metadata"], "creationTimestamp": stamp(at)}}


@pytest.mark.fault("Airflow's clock is set by hours while a pod runs", ends="measured", keeps="the pod and its result")
@pytest.mark.parametrize("step", [-40_000.0, 40_000.0])
def test_a_clock_that_is_set_ends_no_launch(step: float) -> None:
    watch = PodWatch(LIMITS, started=True)
    assert watch.look([made_at(runs())], T0 + 100 + step, T0 + 100) is None
    assert watch.look([made_at(unplaced())], T0 + 100 + step, T0 + 100) is None
    assert stopped(watch.look([made_at(runs())], T0 + step, T0 + 5000)).reason == "deadline"


@pytest.mark.parametrize("step", [-40_000.0, 40_000.0])
def test_the_time_until_a_node_is_the_clusters(step: float) -> None:
    watch = PodWatch(LIMITS)
    assert watch.look([made_at(unplaced())], T0 + 100 + step, T0 + 100) is None
    assert stopped(watch.look([made_at(unplaced())], T0 + 100 + step, T0 + 601)).reason == "schedule_timeout"


def crashed(restarts: int, **last: Any) -> Row:
    row = pod(state={"waiting": {"reason": "CrashLoopBackOff"}})
    row["status"]["containerStatuses"][0] |= {"restartCount": restarts, "lastState": {"terminated": {"exitCode": 2, **last}}}
    return row


def serves_not(*pods: Row, after: float = 1.0, watch: PodWatch | None = None) -> StopCause | None:
    return (watch or PodWatch(LIMITS)).cannot_serve(list(pods), T0 + after, T0 + after)


def test_servers_that_start_may_still_serve() -> None:
    for row in (unplaced(), waits("ImagePullBackOff"), runs(), crashed(2)):
        assert serves_not(row, after=100) is None
    assert serves_not(after=599) is None, "their controller has not made them yet"


def test_servers_will_not_serve_for_the_reasons_of_a_launch_and_when_they_crash() -> None:
    watch = PodWatch(LIMITS)
    assert serves_not(waits("ImagePullBackOff"), after=1, watch=watch) is None
    found = [
        serves_not(unplaced(), after=600),
        serves_not(after=600),
        serves_not(waits("ImagePullBackOff"), after=161, watch=watch),
        serves_not(crashed(3, reason="Error", message="unrecognized arguments: --prot")),
    ]
    assert [stop and stop.reason for stop in found] == ["schedule_timeout", "schedule_timeout", "image_error", "server_crashes"]
    assert found[-1] is not None and found[-1].detail == "pod pl-a-0 was restarted again and again and ended with exit code 2 (Error)"


def test_a_server_that_was_evicted_or_deleted_is_replaced_and_not_judged() -> None:
    leaving = unplaced()
    leaving["metadata"]["deletionTimestamp"] = stamp(T0)
    watch = PodWatch(LIMITS)
    assert serves_not(ended(1), leaving, runs(2), after=599, watch=watch) is None
    assert serves_not(runs(2), after=599, watch=watch) is None, "and is not missed"
    assert [each["metadata"]["name"] for each in watch.seen().pods] == ["pl-a-2"]
