"""Names and labels of every object of a launch, and the declaration and image behind it."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.declarations.providers.serving import Serving
from plumbline.launch.failures import BadDeclaration

Row = dict[str, Any]
"""An object of the Kubernetes API."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "plumbline"
LAUNCH = "plumbline/launch"
"""Label: the launch's name, the same on every object of one attempt."""
SERVES = "plumbline/serves"
"""Label: the launch's name on the pods of its Deployment, in place of the launch's own label."""
RANK = "plumbline/rank"
ATTEMPT = "plumbline/attempt"
PROVIDER = "plumbline/provider"
WORKLOAD = "plumbline/workload"
KIND = "plumbline/kind"
CAMPAIGN = "plumbline/campaign"
TRIAL = "plumbline/trial"
"""Annotation: the trial id, which may exceed a label's length."""
EXPIRES = "plumbline/expires"
"""Annotation: seconds since the epoch after which an object of the launch is an orphan."""

_OTHER = re.compile(r"[^a-z0-9]+")
_ENDS = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$")


def launch_name(trial: Trial) -> str:
    """Name of one attempt's objects: a deterministic DNS label of at most 46 characters; with `-<rank>` of pods and their host names."""
    workload = _OTHER.sub("-", trial.workload.name.lower()).strip("-")[:20].strip("-")
    # Installations that share a namespace plan the same trials of a month at different moments.
    identity = f"{trial.campaign_id}/{trial.trial_id}/{trial.attempt}/{trial.planned_at.isoformat()}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    return f"pl-{workload}-r{trial.repeat}a{trial.attempt}-{digest}"


def pod_name(trial: Trial, rank: int, replaced: int = 0) -> str:
    """Name of the pod of a rank, unique after `replaced` earlier ones."""
    return f"{launch_name(trial)}-{rank}" + (f"-{replaced}" if replaced else "")


def key_name(trial: Trial) -> str:
    """Name of the Secret that hands the attempt's signing key to its pods."""
    return f"{launch_name(trial)}-key"


def labels(trial: Trial, rank: int | None = None) -> dict[str, str]:
    """Labels of an object of the launch; with `rank`, of that rank's pod."""
    values = {
        MANAGED_BY: MANAGER,
        LAUNCH: launch_name(trial),
        ATTEMPT: str(trial.attempt),
        PROVIDER: trial.provider.name,
        WORKLOAD: trial.workload.name,
        KIND: trial.workload.kind,
        CAMPAIGN: label_value(trial.campaign_id),
    }
    return values if rank is None else {**values, RANK: str(rank)}


def selector(trial: Trial) -> str:
    """Label selector of everything that belongs to the attempt."""
    return f"{MANAGED_BY}={MANAGER},{LAUNCH}={launch_name(trial)}"


def label_value(text: str) -> str:
    """The text as a label's value of at most 63 characters; invalid ones become dashes."""
    return _ENDS.sub("", re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63])


def cluster_declaration(provider: Provider) -> KubernetesLauncher:
    """The provider's launcher; BadDeclaration if it is of another kind."""
    try:
        return provider.launcher_as(KubernetesLauncher)
    except TypeError as error:
        raise BadDeclaration(f"{error} for a trial that runs in pods") from None


def serving_of(trial: Trial) -> Serving | None:
    """The servers that the trial's provider starts for it as a Deployment; None for a trial with its server in its own pod."""
    return cluster_declaration(trial.provider).serving if trial.hosted else None


def trial_image(trial: Trial) -> str:
    """The image that runs the trial; BadDeclaration if the provider declares none for its kind."""
    kind = trial.workload.kind
    image = cluster_declaration(trial.provider).image_for(kind, trial.workload.own_image)
    if image is None:
        raise BadDeclaration(f"{trial.provider.name}: launcher.images.{kind} is not declared; expected the image that runs {kind} trials")
    return image
