"""What the cluster showed becomes records: times by one clock, facts that are known, and nothing that was not seen."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from tests.data.cluster_scenes import NAMES, requested_at, scene

from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, decode_observation, encode_observation
from plumbline.launch.cluster.observe.pod_records import POINTS, image_pull, keep_ready_time, launch_events, pod_records, pod_timeline
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import Event, LaunchRecord, PodRecord
from plumbline.results.launch_record import launch_metrics


def at(hour: int, minute: int, second: int) -> datetime:
    return datetime(2026, 11, 21, hour, minute, second, tzinfo=timezone.utc)


def times(events: tuple[Event, ...]) -> dict[str, str]:
    return {event.name: f"{event.utc:%H:%M:%S}" for event in events}


def only(name: str) -> PodRecord:
    (record,) = pod_records(scene(name))
    return record


def metrics(name: str, seen: LaunchObservation | None = None) -> dict[str, tuple[float | None, int]]:
    seen = seen or scene(name)
    record = LaunchRecord(launcher="kubernetes", events=launch_events(seen, requested_at(name)), pods=pod_records(seen))
    rows = launch_metrics(record)
    assert {(row.phase, row.unit) for row in rows} == {("cold_start", "s")}
    return {row.metric: (row.value, row.n) for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_every_scene_has_records_in_order(name: str) -> None:
    for record in pod_records(scene(name)):
        assert [event.name for event in record.events] == [point for point in POINTS if point in times(record.events)]
        moments = [event.utc for event in record.events if event.name != "deleted"]
        assert moments == sorted(moments)
        assert all(event.utc.microsecond == 0 and event.clock == "cluster" and event.monotonic_s is None for event in record.events)
        assert record.notices == tuple(sorted(record.notices, key=lambda notice: notice.utc))
    assert all(value is None or value >= 0 for value, _ in metrics(name).values())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_trigger_hands_on_is_enough(name: str) -> None:
    seen = scene(name)
    handed = decode_observation(json.loads(json.dumps(encode_observation(seen))))
    assert pod_records(handed) == pod_records(seen)
    assert launch_events(handed, requested_at(name)) == launch_events(seen, requested_at(name))
    assert classify_launch(handed, None) == classify_launch(seen, None)


def test_a_pod_whose_image_was_there() -> None:
    record = only("success")
    assert times(record.events) == {"requested": "03:21:16", "scheduled": "03:21:16", "started": "03:21:17", "finished": "03:21:20"}
    assert (record.name, record.rank, record.node, record.exit_code, record.reason) == ("success", 0, "node-1", 0, None)
    assert record.facts["image_cached"] is True
    assert record.facts["image_bytes"] == 128123716
    assert record.facts["qos_class"] == "Guaranteed"
    assert record.facts["kubernetes.version"] == "v1.20.2"
    assert "image_pull_s" not in record.facts
    assert metrics("success")["image_pull_time"] == (None, 0)


def test_a_pod_whose_image_was_pulled_onto_a_gpu_node() -> None:
    record = only("pulled")
    assert times(record.events) == {
        "requested": "02:00:00",
        "scheduled": "02:00:41",
        "image_pulling": "02:00:42",
        "image_pulled": "02:02:15",
        "started": "02:02:16",
        "finished": "02:30:16",
    }
    assert record.facts == {
        "cuda.version": "12.8",
        "driver.version": "570.86.15",
        "gpu.count": 8,
        "gpu.memory_mib": 81559,
        "gpu.mig_strategy": "single",
        "gpu.model": "H100",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "host.instance_type": "gpu-8",
        "host.region": "region-1",
        "host.zone": "region-1a",
        "image": f"registry.example.com/plumbline-training@sha256:{'ab' * 32}",
        "image_bytes": 10737418240,
        "image_cached": False,
        "image_id": f"registry.example.com/plumbline-training@sha256:{'ab' * 32}",
        "image_pull_s": pytest.approx(91.208),
        "kubernetes.runtime": "containerd://1.7.24",
        "kubernetes.version": "v1.31.4",
        "os.architecture": "amd64",
        "os.kernel": "6.8.0-1021",
        "os.name": "Ubuntu 24.04.1 LTS",
        "qos_class": "Guaranteed",
    }
    assert metrics("pulled") == {
        "provisioning_lead_time": (136.0, 1),
        "pod_scheduling_time": (41.0, 1),
        "image_pull_time": (pytest.approx(91.208), 1),
    }


def test_an_older_feature_discovery_gives_versions_in_parts() -> None:
    seen = scene("pulled")
    nodes = copy.deepcopy(dict(seen.nodes))
    for key in ("driver-version", "runtime-version"):
        del nodes["node-1"]["metadata"]["labels"][f"nvidia.com/cuda.{key}.full"]
    (record,) = pod_records(replace(seen, nodes=nodes))
    assert (record.facts["driver.version"], record.facts["cuda.version"]) == ("570.86.15", "12.8")


def test_what_is_not_known_is_absent() -> None:
    (record,) = pod_records(replace(scene("success"), nodes={}, events=()))
    assert set(record.facts) == {"image", "image_id", "qos_class"}
    assert pod_records(LaunchObservation(expected=1)) == ()


def test_a_queue_that_admits() -> None:
    assert times(only("kueue-admitted").events)["admitted"] == "02:00:33"
    assert times(only("kueue-admitted").events)["started"] == "02:02:16"
    assert "admitted" not in times(only("kueue-gated").events)


@pytest.mark.parametrize(
    ("name", "reason", "exit_code"),
    [
        ("oom-killed", "OOMKilled", 137),
        ("evicted-ephemeral-storage", "Evicted", None),
        ("err-image-pull", "ImagePullBackOff", None),
        ("unschedulable-gpus", "Unschedulable", None),
        ("kueue-gated", "SchedulingGated", None),
        ("preempted", "PreemptionByScheduler", None),
        ("deadline-exceeded", "DeadlineExceeded", None),
        ("no-such-command", "StartError", 128),
    ],
)
def test_the_clusters_own_word_for_it(name: str, reason: str, exit_code: int | None) -> None:
    assert (only(name).reason, only(name).exit_code) == (reason, exit_code)


def test_a_pod_that_lost_its_status_is_dated_by_its_events() -> None:
    assert times(only("evicted-ephemeral-storage").events) == {"requested": "03:21:16", "scheduled": "03:21:16", "started": "03:21:17"}


def test_a_container_that_never_started_has_no_start() -> None:
    assert "started" not in times(only("no-such-command").events)
    assert metrics("no-such-command")["provisioning_lead_time"] == (None, 0)


def test_deletion_is_dated_when_it_was_asked_for() -> None:
    assert times(only("deleted").events)["deleted"] == "03:21:25"
    assert times(only("preempted").events)["deleted"] == "02:20:00"
    assert "deleted" not in times(only("success").events)


def test_notices_keep_what_the_cluster_forgets() -> None:
    notices = {notice.message: notice for notice in only("err-image-pull").notices}
    assert notices["Error: ErrImagePull"].count == 3
    assert notices["Error: ErrImagePull"].kind == "Warning"
    assert f"{notices['Error: ErrImagePull'].utc:%H:%M:%S}" == "03:21:57"
    assert [notice.reason for notice in only("unschedulable-gpus").notices] == ["FailedScheduling", "FailedScheduling"]


def test_events_of_an_earlier_pod_of_the_same_name_are_not_its_own() -> None:
    seen = scene("oom-killed")
    earlier = copy.deepcopy(seen.events[0])
    earlier["involvedObject"]["uid"] = "another"
    earlier["reason"] = "Killing"
    (record,) = pod_records(replace(seen, events=(*seen.events, earlier)))
    assert "Killing" not in [notice.reason for notice in record.notices]


def test_the_last_pod_of_a_gang_decides() -> None:
    events = launch_events(scene("gang"), requested_at("gang"))
    assert times(events) == {
        "requested": "01:59:59",
        "created": "02:00:00",
        "scheduled": "02:00:42",
        "image_pulling": "02:00:42",
        "image_pulled": "02:02:15",
        "started": "02:02:30",
        "finished": "02:30:17",
    }
    assert [event.clock for event in events] == ["launcher", *["cluster"] * 6]
    assert [record.rank for record in pod_records(scene("gang"))] == [0, 1]
    assert metrics("gang") == {
        "provisioning_lead_time": (150.0, 1),
        "pod_scheduling_time": (42.0, 2),
        "image_pull_time": (pytest.approx(91.208), 2),
        "gang_ready_time_1": (136.0, 1),
        "gang_ready_time_2": (150.0, 2),
    }


def test_a_gang_that_is_not_complete_has_not_started() -> None:
    seen = scene("gang")
    assert "started" not in times(launch_events(replace(seen, expected=3), requested_at("gang")))
    assert metrics("gang", replace(seen, expected=3))["provisioning_lead_time"] == (None, 0)


def test_a_launch_without_pods_was_only_requested() -> None:
    assert [event.name for event in launch_events(LaunchObservation(expected=1), at(2, 0, 0))] == ["requested"]
    assert metrics("success", LaunchObservation(expected=1)) == {
        "provisioning_lead_time": (None, 0),
        "pod_scheduling_time": (None, 0),
        "image_pull_time": (None, 0),
    }


def test_waiting_for_a_controller_to_create_the_pods_counts() -> None:
    seen = scene("gang")
    pods = copy.deepcopy(seen.pods)
    for pod in pods:
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "pl-gang-trial-0"
    queued = LaunchRecord(
        launcher="kubernetes", events=launch_events(seen, at(1, 50, 0)), pods=pod_records(replace(seen, pods=tuple(pods)))
    )
    assert launch_metrics(queued)[0].value == 750.0


def test_clocks_that_differ_give_no_duration() -> None:
    seen = scene("pulled")
    (pod,) = copy.deepcopy(seen.pods)
    started = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    started["startedAt"] = "2026-11-21T01:59:59Z"
    assert metrics("pulled", replace(seen, pods=(pod,)))["provisioning_lead_time"] == (0.0, 1)
    started["startedAt"] = "2026-11-21T01:59:00Z"
    assert metrics("pulled", replace(seen, pods=(pod,)))["provisioning_lead_time"] == (None, 0)


@pytest.mark.parametrize(
    ("message", "seconds", "size"),
    [
        ('Successfully pulled image "x:1" in 890ms (1.2s including waiting). Image size: 64753325 bytes.', 0.89, 64753325),
        ('Successfully pulled image "x:1" in 3.261846503s', 3.261846503, None),
        ('Successfully pulled image "x:1" in 1h2m3.5s (1h2m3.5s including waiting). Image size: 7 bytes.', 3723.5, 7),
    ],
)
def test_how_long_a_pull_took(message: str, seconds: float, size: int | None) -> None:
    event = {"reason": "Pulled", "message": message, "involvedObject": {"fieldPath": "spec.containers{harness}"}}
    pod = scene("pulled").pods[0]
    found = image_pull(pod, [event])
    assert (found.cached, found.seconds, found.size) == (False, pytest.approx(seconds), size)
    sidecar = {**event, "involvedObject": {"fieldPath": "spec.initContainers{proxy}"}}
    assert image_pull(pod, [sidecar]).cached is None


def test_when_a_pod_was_ready_is_remembered() -> None:
    (ended,) = scene("pulled").pods
    before: Row = copy.deepcopy(ended)
    before["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T02:02:17Z"}]
    assert "ready" not in times(pod_timeline(ended, ()))
    kept = keep_ready_time(before, ended)
    assert times(pod_timeline(kept, ()))["ready"] == "02:02:17"
    assert times(pod_timeline(keep_ready_time(kept, ended), ()))["ready"] == "02:02:17"
    assert keep_ready_time(ended, ended) is ended
