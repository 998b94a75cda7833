from __future__ import annotations

from typing import Any

from tests.data.manifests.rewrite import REQUESTED_AT, gang_trial

from plumbline.declarations import Trial
from plumbline.launch.cluster.manifests.gang import GangManifests, gang_manifests, with_owner
from plumbline.launch.cluster.manifests.trial_pod import QUEUE, RENDEZVOUS_PORT
from plumbline.launch.cluster.names import LAUNCH, RANK, launch_name, pod_name


def made(trial: Trial) -> GangManifests:
    return gang_manifests(trial, requested_at=REQUESTED_AT)


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


def test_a_gangs_pods_find_each_other_through_their_service() -> None:
    trial = gang_trial(3)
    found = made(trial)
    service = found.owner
    assert (service["kind"], service["metadata"]["name"], service["spec"]["clusterIP"]) == ("Service", launch_name(trial), "None")
    assert service["spec"]["publishNotReadyAddresses"] is True and service["spec"]["selector"] == {LAUNCH: launch_name(trial)}
    assert [port["port"] for port in service["spec"]["ports"]] == [RENDEZVOUS_PORT]
    assert len(found.pods) == 3
    for rank, pod in enumerate(found.pods):
        name, spec = pod["metadata"]["name"], pod["spec"]
        assert (name, spec["hostname"], spec["subdomain"]) == (pod_name(trial, rank), name, service["metadata"]["name"])
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        told = variables(spec["containers"][0])
        assert told["PLUMBLINE_NODE_RANK"] == pod["metadata"]["labels"][RANK] == str(rank)
        assert told["PLUMBLINE_RENDEZVOUS"] == f"{pod_name(trial, 0)}.{launch_name(trial)}:29400"
        assert name != service["metadata"]["name"]  # such a pod would resolve the Service's name to itself


def test_the_pods_go_with_their_owner() -> None:
    found = made(gang_trial(2))
    pods = with_owner(found.pods, {**found.owner, "metadata": {**found.owner["metadata"], "uid": "u-1"}})
    for pod in pods:
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["uid"]) == ("Service", found.owner["metadata"]["name"], "u-1")
        assert reference["blockOwnerDeletion"] is True
    assert all("ownerReferences" not in pod["metadata"] for pod in found.pods)


def test_kueue_admits_all_of_a_gang_or_none() -> None:
    for pod in made(gang_trial(2, queue="gpus")).pods:
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == pod["metadata"]["labels"][LAUNCH]
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false"
    for pod in made(gang_trial(2)).pods:
        assert not any("kueue" in key for key in [*pod["metadata"]["labels"], *pod["metadata"]["annotations"]])


def test_a_job_set_makes_the_pods_itself_and_never_again() -> None:
    trial = gang_trial(4, gang="jobset", queue="gpus")
    found = made(trial)
    assert found.pods == () and found.owner["kind"] == "JobSet"
    assert found.owner["metadata"]["labels"][QUEUE] == "gpus"
    (replicated,) = found.owner["spec"]["replicatedJobs"]
    job = replicated["template"]["spec"]
    assert (job["parallelism"], job["completions"], job["completionMode"], job["backoffLimit"]) == (4, 4, "Indexed", 0)
    assert found.owner["spec"]["failurePolicy"] == {"maxRestarts": 0}
    labels = job["template"]["metadata"]["labels"]
    assert QUEUE not in labels and RANK not in labels and labels[LAUNCH] == launch_name(trial)
    told = variables(job["template"]["spec"]["containers"][0])
    assert told["PLUMBLINE_RENDEZVOUS"] == f"{launch_name(trial)}-node-0-0.{launch_name(trial)}:29400"
    assert "PLUMBLINE_NODE_RANK" not in told  # the controller counts
