"""A cluster serves workloads with external servers by a Deployment, if it says with which command and scaler."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.trials import EXTERNAL, a_trial, cluster_provider, declared, serving

from plumbline.declarations import InferenceWorkload, incompatibility
from plumbline.declarations.providers.serving import Serving

CHAT = declared().workloads["chat-tiny-cpu"]


def workload(**server: Any) -> InferenceWorkload:
    data = json.loads(CHAT.model_dump_json()) | {"server": {**EXTERNAL["server"], **server}}
    return InferenceWorkload.model_validate_json(json.dumps({**data, "providers": None}))


def with_scaling(**scaling: Any) -> Serving:
    return Serving.model_validate_json(json.dumps(serving(scaling=scaling)))


def test_external_servers_fit_a_cluster_that_serves_them() -> None:
    assert incompatibility(workload(), cluster_provider(serving=serving())) is None
    misfit = incompatibility(workload(), cluster_provider())
    assert misfit is not None and "launcher.serving" in misfit
    beside = incompatibility(workload(client_placement="same_node"), cluster_provider(serving=serving()))
    assert beside is not None and "client_placement" in beside


def test_the_same_cluster_measures_servers_in_the_trials_pod_too() -> None:
    assert incompatibility(CHAT.model_copy(update={"providers": None}), cluster_provider(serving=serving())) is None


@pytest.mark.parametrize(
    ("scaling", "field"),
    [
        ({"by": "hpa", "maximum": 4}, "cpu"),
        ({"by": "none", "maximum": 4, "cpu": "70%"}, "cpu"),
        ({"by": "keda", "maximum": 4}, "triggers"),
        ({"by": "hpa", "maximum": 4, "cpu": "70%", "triggers": [{"type": "cron"}]}, "triggers"),
        ({"by": "none", "minimum": 3, "maximum": 2}, "maximum"),
        ({"by": "hpa", "minimum": 0, "maximum": 2, "cpu": "70%"}, "minimum 0"),
    ],
)
def test_a_scaler_without_its_measure_is_refused(scaling: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        with_scaling(**scaling)


def test_each_scaler_with_its_measure_is_accepted() -> None:
    for by, measure in (("hpa", {"cpu": "70%"}), ("keda", {"triggers": [{"type": "cron"}]}), ("none", {})):
        assert with_scaling(by=by, maximum=4, **measure).scaling.minimum == 1


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        ({"type": "external", "metadata": {"scalerAddress": "own.default:80"}}, "triggers.0.type is external"),
        ({"type": "prometheus", "metadata": {}, "fallback": 1}, "triggers.0.fallback"),
        ({"type": "cron", "metadata": {"desiredReplicas": 3}}, "triggers.0.metadata is not"),
        ({"type": "prometheus", "metadata": {"serverAddress": "http://169.254.169.254/latest"}}, "metadata.serverAddress"),
        ({"type": "metrics-api", "metadata": {"url": "http://localhost:10255/pods"}}, "metadata.url"),
        ({"type": "cron", "metadata": {}, "authenticationRef": {"name": "a", "kind": "ClusterTriggerAuthentication"}}, "authenticationRef"),
        ({"type": "cron", "metadata": {}, "authenticationRef": "a"}, "authenticationRef"),
    ],
)
def test_a_trigger_that_could_do_more_than_read_a_number_is_refused(trigger: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(field)):
        with_scaling(by="keda", maximum=4, triggers=[trigger])


def test_a_trigger_with_an_authentication_of_its_namespace_is_accepted() -> None:
    metadata = {"serverAddress": "http://prometheus.monitoring:9090", "query": "sum(vllm:num_requests_waiting)", "threshold": "5"}
    trigger = {"type": "prometheus", "metadata": metadata, "authenticationRef": {"name": "prometheus"}}
    assert with_scaling(by="keda", maximum=4, triggers=[trigger]).scaling.triggers == (trigger,)


def test_a_server_runs_code_of_others_only_where_that_is_declared() -> None:
    command = ["vllm", "serve", "own/model", "--trust-remote-code"]
    with pytest.raises(ValidationError, match=r"serving\.trust_remote_code: true"):
        Serving.model_validate_json(json.dumps(serving(command=command)))
    assert Serving.model_validate_json(json.dumps(serving(command=command, trust_remote_code=True))).trust_remote_code


def test_a_trial_knows_that_its_server_is_elsewhere() -> None:
    provider = cluster_provider(serving=serving())
    assert a_trial("inference", provider, EXTERNAL).hosted
    assert not a_trial("inference", provider).hosted and not a_trial("training", provider).hosted
