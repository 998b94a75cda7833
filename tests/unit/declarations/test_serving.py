"""A cluster serves workloads with external servers by a Deployment, if it says with which command and scaler."""

from __future__ import annotations

import json
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


def test_a_trial_knows_that_its_server_is_elsewhere() -> None:
    provider = cluster_provider(serving=serving())
    assert a_trial("inference", provider, EXTERNAL).hosted
    assert not a_trial("inference", provider).hosted and not a_trial("training", provider).hosted
