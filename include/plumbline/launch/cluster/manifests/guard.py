"""The guard of a trial's own servers: a Job that owns all objects of the launch and that the cluster deletes at its deadline, also without Airflow.

A pod ends at its own `activeDeadlineSeconds`; a Deployment has none, and its servers would hold GPUs until the next sweep.
"""

from __future__ import annotations

import math
from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster.manifests.trial_pod import QUEUE, longest_launch_s, owner_manifest, pod_template
from plumbline.launch.cluster.names import LAUNCH, Row, cluster_declaration

_GATE = "plumbline/guard"
_SLEEP = ["python", "-c", "import signal; signal.pause()"]
_LITTLE = {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "16Mi"}
_OF_A_TRIAL = ("activeDeadlineSeconds", "initContainers", "affinity", "hostIPC", "hostNetwork")


def guard_job(trial: Trial, requested_at: datetime) -> Row:
    """The Job, named like the launch. It ends after the longest that the launch may take; Airflow's own limits are shorter."""
    row = owner_manifest("guard", trial, requested_at)
    pod = pod_template(trial, requested_at=requested_at)
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    for label in (LAUNCH, QUEUE):  # it is no pod of the trial's, and waits for no admission
        labels.pop(label, None)
    for field in _OF_A_TRIAL:
        spec.pop(field, None)
    kept = {key: spec["containers"][0][key] for key in ("name", "image", "imagePullPolicy", "securityContext")}
    spec["containers"] = [{**kept, "command": _SLEEP, "resources": {"requests": _LITTLE, "limits": dict(_LITTLE)}}]
    spec["volumes"] = []
    spec["terminationGracePeriodSeconds"] = 0  # it holds nothing, and the first process of a container ignores SIGTERM
    spec["schedulingGates"] = [{"name": _GATE}]
    row["spec"] |= {"activeDeadlineSeconds": math.ceil(longest_launch_s(cluster_declaration(trial.provider))), "template": pod}
    return row
