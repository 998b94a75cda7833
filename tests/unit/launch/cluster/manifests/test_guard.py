"""The guard of a launch with servers owns every object of it, and what a launch opens in the network is its own."""

from __future__ import annotations

from typing import Any

from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, gang_trial, h100
from tests.fakes.trials import EXTERNAL, a_trial, serving

from plumbline.declarations import Trial
from plumbline.launch.cluster.manifests.guard import guard_job
from plumbline.launch.cluster.manifests.network import network_policies
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import EXPIRES, LAUNCH, SERVES, cluster_declaration, launch_name


def served(**launcher: Any) -> Trial:
    return a_trial("inference", h100(serving=serving(), **launcher), {**EIGHT_GPUS, **EXTERNAL})


def test_a_guard_ends_after_all_that_it_owns_may_take_and_before_the_sweep() -> None:
    trial = served(timeout="2h", schedule_timeout="10min", startup_timeout="5min", unreachable_timeout="15min")
    guard = guard_job(trial, REQUESTED_AT)
    assert guard["spec"]["activeDeadlineSeconds"] == 2.5 * 3600 and guard["spec"]["ttlSecondsAfterFinished"] == 0
    assert float(guard["metadata"]["annotations"][EXPIRES]) > REQUESTED_AT.timestamp() + guard["spec"]["activeDeadlineSeconds"]
    pod = pod_manifest(trial, requested_at=REQUESTED_AT)
    assert guard["spec"]["activeDeadlineSeconds"] > pod["spec"]["activeDeadlineSeconds"] == cluster_declaration(trial.provider).timeout


def test_a_guard_takes_no_accelerator_no_secret_and_no_place_among_the_trials_pods() -> None:
    trial = served(queue="gpus", host_ipc=True, models_secret="hub", sidecars=[{"name": "own", "image": "x@sha256:" + 64 * "1"}])
    template = guard_job(trial, REQUESTED_AT)["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert "env" not in container and "hostIPC" not in template["spec"] and not template["spec"]["volumes"]
    assert LAUNCH not in template["metadata"]["labels"] and not [key for key in template["metadata"]["labels"] if "kueue" in key]
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True


def test_pods_reach_those_of_their_own_launch_alone() -> None:
    gang, trial = gang_trial(2), served()
    (between,) = network_policies(gang, REQUESTED_AT)
    own = {"podSelector": {"matchLabels": {LAUNCH: launch_name(gang)}}}
    assert between["spec"] == {**own, "policyTypes": ["Ingress", "Egress"], "ingress": [{"from": [own]}], "egress": [{"to": [own]}]}
    client, servers = network_policies(trial, REQUESTED_AT)
    assert client["spec"]["egress"] == [{"to": [{"podSelector": {"matchLabels": {SERVES: launch_name(trial)}}}]}]
    assert servers["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": {LAUNCH: launch_name(trial)}}}]}]
    assert network_policies(a_trial(provider=h100(), declare=EIGHT_GPUS), REQUESTED_AT) == ()
