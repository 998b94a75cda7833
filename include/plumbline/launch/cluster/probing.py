"""A short probe of a provider on a cluster: one pod like a trial's, with one GPU, deleted in every case.

Its document comes through the result store, as a trial's does. Should we die before we delete it, the pod names its own end, for the
cluster (a deadline) and for the sweep (an annotation).
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.cluster import manifest, names, pod_state
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.doctor.typical import typical
from plumbline.launch.cluster.look import tolerated
from plumbline.launch.cluster.pod_verdict import verdict
from plumbline.launch.failures import EXCEPTIONS, BadDeclaration, HarnessError, Interrupted, LaunchTimeout, TrialTimeout
from plumbline.launch.probing import STARTING_S, PutOff, read
from plumbline.results.probe import ProbeDocument

_KEPT_LABELS = (names.MANAGED_BY, names.PROVIDER, manifest.QUEUE)


@dataclass(frozen=True)
class Patience:
    """Seconds: how long the pod may wait for a node before the probe is put off, may fail to start before that counts, and is waited for
    when it was deleted; and between looks."""

    node_s: float = 180.0
    trouble_s: float = 30.0
    gone_s: float = 60.0
    look_s: float = 2.0


def probe(
    declared: Declarations,
    provider: Provider,
    launcher: KubernetesLauncher,
    now: datetime,
    limit_s: float,
    patience: Patience | None = None,
) -> ProbeDocument | PutOff:
    """Probe one node of the provider; PutOff if none has room now, or if trials run there: they share nodes, and must not be measured with us.

    A TrialFailure as a trial's launch would raise it; Refused if the cluster refuses the pod; OSError if the store does not answer.
    """
    patience = patience or Patience()
    api = ClusterApi(launcher.connection, launcher.namespace)
    busy = [pod_state.name_of(pod) for pod in api.pods(_selector(names.PROVIDER, provider.name)) if not pod_state.over(pod)]
    if busy:
        return PutOff(
            f"put off: {', '.join(busy[:3])}{' and others' if len(busy) > 3 else ''} on {provider.name}; what is measured there goes first"
        )
    trials = typical(declared, provider, launcher, now)
    if not trials:
        raise BadDeclaration(f"no workload can run on {provider.name}, so nobody knows what a pod there looks like; expected one that fits")
    name = f"pl-probe-{secrets.token_hex(4)}"
    path = f"probes/{provider.name}/{name}.json"
    pod = pod_of(trials[0], launcher, name, path, now, limit_s, patience)
    api.create(pod)
    try:
        if (why := _wait(api, name, launcher, limit_s, patience)) is not None:
            return PutOff(f"{provider.name} was not probed: {why}")
    finally:
        tolerated(f"delete the pod {name}", partial(api.remove, None, _selector(names.LAUNCH, name), wait_s=patience.gone_s), list[str]())
    store = stores.of(provider)
    try:
        return read(store.get(path), store.uri(path))
    except FileNotFoundError:
        raise HarnessError(f"the probe on {provider.name} ended well and left nothing at {store.uri(path)}") from None


def pod_of(trial: Trial, launcher: KubernetesLauncher, name: str, path: str, now: datetime, limit_s: float, patience: Patience) -> Row:
    """The probe's pod, from that of a trial of the provider: the same place, image and rights, but one GPU and little time."""
    row = manifest.pod(trial, requested_at=now)
    labels = {key: value for key, value in row["metadata"]["labels"].items() if key in _KEPT_LABELS} | {names.LAUNCH: name}
    whole_s = int(launcher.startup_timeout + limit_s + STARTING_S)
    expires = str(int(now.timestamp() + patience.node_s + whole_s + 600))
    row["metadata"] |= {"name": name, "labels": labels, "annotations": {**_kept(row), names.EXPIRES: expires}}
    spec = row["spec"]
    for key in ("hostname", "subdomain", "affinity", "setHostnameAsFQDN"):
        spec.pop(key, None)
    spec["activeDeadlineSeconds"] = whole_s
    spec.pop("initContainers", None)  # daemons for the network of whole nodes, which one GPU's probe does not use
    container = next(c for c in spec["containers"] if c["name"] == pod_state.CONTAINER)
    container["command"] = ["python", "-m", "plumbline.harness", "probe"]
    container["args"] = ["--out", f"{launcher.results_url.rstrip('/')}/{path}", "--limit", f"{limit_s:g}"]
    amounts = container["resources"]["limits"]
    if launcher.gpu_resource in amounts:
        amounts = {**amounts, launcher.gpu_resource: "1"}
    container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return row


def _kept(pod: Row) -> dict[str, str]:
    """The template's annotations, without those that name the trial."""
    return {key: value for key, value in pod["metadata"]["annotations"].items() if key not in (names.TRIAL, names.EXPIRES)}


def _selector(label: str, value: str) -> str:
    return f"{names.MANAGED_BY}={names.MANAGER},{label}={value}"


def _wait(api: ClusterApi, name: str, launcher: KubernetesLauncher, limit_s: float, patience: Patience) -> str | None:
    """None when the pod has ended well; in words why it was given up before it began. TrialFailure of any other end."""
    asked, begun, troubled = time.monotonic(), None, None
    while True:
        pod = api.get("Pod", name)
        now = time.monotonic()
        if pod is None:
            raise Interrupted(f"the probe's pod {name} was deleted by somebody")
        if pod_state.over(pod):
            failed = verdict(pod, api.events([name]), gone=False)
            if failed is None:
                return None
            raise EXCEPTIONS[failed.failure_class](f"the probe failed: {failed.detail}")
        if not pod_state.on_node(pod):
            if now - asked > patience.node_s:
                return f"no node had room for it within {patience.node_s:g} s ({pod_state.why_no_node(pod) or 'the scheduler does not say why'})"
        elif pod_state.trouble(pod) is not None:
            troubled = troubled or now
            if now - troubled > patience.trouble_s and (wrong := verdict(pod, api.events([name]), gone=False)) is not None:
                raise EXCEPTIONS[wrong.failure_class](f"the probe did not start: {wrong.detail}")
        elif pod_state.running(pod):
            begun = begun or now
            if now - begun > limit_s + STARTING_S:
                raise TrialTimeout(f"the probe's pod {name} did not end within {limit_s + STARTING_S:g} s")
        elif now - asked > patience.node_s + launcher.startup_timeout:
            raise LaunchTimeout(f"the probe's pod {name} did not start within {launcher.startup_timeout:g} s (launcher.startup_timeout)")
        time.sleep(patience.look_s)
