from __future__ import annotations

import json

from plumbline.launch.cluster.observe.observation import (
    LaunchObservation,
    Row,
    StopCause,
    decode_observation,
    encode_observation,
    event_time,
    trim_node,
    trim_pod,
)

POD: Row = {
    "metadata": {
        "name": "pl-a-0",
        "uid": "u",
        "labels": {"plumbline/rank": "0"},
        "annotations": {"plumbline/trial": "t", "site/secret": "hush"},
        "managedFields": [{"manager": "x"}],
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [{"name": "harness", "image": "i:1", "env": [{"name": "TOKEN", "value": "hush"}], "args": ["hush"]}],
        "volumes": [{"name": "hush"}],
    },
    "status": {
        "phase": "Failed",
        "podIP": "10.0.0.1",
        "containerStatuses": [
            {"name": "harness", "image": "i:1", "imageID": "i@sha256:1", "state": {"terminated": {"exitCode": 1, "message": "x" * 5000}}}
        ],
    },
}
NODE: Row = {
    "metadata": {"name": "node-1", "labels": {"zone": "a"}, "annotations": {"big": "y" * 999}},
    "status": {
        "images": [{"names": ["i@sha256:1", "i:1"], "sizeBytes": 7}, {"names": ["other"], "sizeBytes": 8}],
        "nodeInfo": {"kernelVersion": "6"},
    },
}


def test_what_was_seen_survives_the_way_through_json() -> None:
    event = {"metadata": {"uid": "e"}, "involvedObject": {"name": "pl-a-0"}, "reason": "Pulled", "message": "m"}
    seen = LaunchObservation(
        2, (trim_pod(POD),), frozenset({"pl-a-1"}), (event,), {"node-1": trim_node(NODE, [POD])}, StopCause("deadline", "late")
    )
    assert decode_observation(json.loads(json.dumps(encode_observation(seen) | {"status": "finished"}))) == seen
    assert decode_observation(encode_observation(LaunchObservation(1))) == LaunchObservation(1)


def test_what_the_pod_was_given_is_left_out_and_what_became_of_it_is_kept() -> None:
    row = trim_pod(POD)
    assert "hush" not in json.dumps(row)
    assert row["metadata"]["annotations"] == {"plumbline/trial": "t"}
    assert row["spec"] == {"nodeName": "node-1", "containers": [{"name": "harness", "image": "i:1"}]}
    assert row["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert len(json.dumps(row)) < 3000
    assert trim_pod(row) == row


def test_of_a_nodes_images_those_are_kept_that_the_pods_run() -> None:
    row = trim_node(NODE, [POD])
    assert row["status"]["images"] == [{"names": ["i@sha256:1", "i:1"], "sizeBytes": 7}]
    assert row["metadata"] == {"name": "node-1", "labels": {"zone": "a"}}
    other = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "other"}]}}
    assert [image["sizeBytes"] for image in trim_node(NODE, [POD, other])["status"]["images"]] == [7, 8]


def test_an_events_time_is_its_newest() -> None:
    assert event_time({"series": {"lastObservedTime": "3"}, "lastTimestamp": "2", "eventTime": "1"}) == "3"
    assert event_time({"lastTimestamp": None, "eventTime": "1"}) == "1"
    assert event_time({"metadata": {"creationTimestamp": "0"}}) == "0"
    assert event_time({}) == ""
