"""One attempt on a cluster, from announcement to record.

Beside trial.json and launch.json the attempt's folder in the home store holds cluster.json, the observation so far: clusters forget events
within an hour and pods on deletion, and another process may adopt the attempt at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from plumbline.declarations import KubernetesLauncher, Trial
from plumbline.declarations.promises.judging.launches import PROVIDER_FAULTS
from plumbline.launch import stores
from plumbline.launch.cluster import names, store_credentials
from plumbline.launch.cluster.api import API_PATIENCE_S, ClusterApi
from plumbline.launch.cluster.manifests import gang, guard, serving
from plumbline.launch.cluster.manifests.serving import SCALERS
from plumbline.launch.cluster.manifests.trial_pod import signing_key_secret
from plumbline.launch.cluster.names import cluster_declaration, serving_of
from plumbline.launch.cluster.observe import pod_records
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, decode_observation, encode_observation, name_of
from plumbline.launch.cluster.observe.polling import merge_observations, poll_launch
from plumbline.launch.cluster.observe.scaler import scaler_trouble
from plumbline.launch.cluster.operate.replaced_pods import Replacements
from plumbline.launch.failures import ApiRefused, BadDeclaration, TrialFailure, Unreachable
from plumbline.launch.remote import UNFINISHED, RemoteAttempt, tolerate
from plumbline.results import Event, FailureClass, LaunchRecord, ResultStore, Scalar
from plumbline.results.signing import KeyPair

GRACE_S = 30
"""Between SIGTERM and SIGKILL of a pod."""
_POLL_PATIENCE_S = 30.0
_STATE = "cluster.json"


@dataclass
class Attempt(RemoteAttempt):
    """An announced attempt. `started_at` is None until all its pods ran; `seen`: its observation so far.

    `replaced`: pods that the trial's fault deleted; `seen` and `started_at` are of their successor. `signs`: a signing key was issued.
    `key`: that key, only in the process that announced the attempt and until its Secret exists."""

    trial: Trial
    home: ResultStore
    requested_at: datetime
    seen: LaunchObservation
    started_at: datetime | None = None
    replaced: Replacements = field(default_factory=Replacements)
    signs: bool = False
    key: KeyPair | None = field(default=None, repr=False)

    @classmethod
    def at(cls, home: ResultStore, folder: str) -> Attempt:
        """The announced attempt of a folder. FileNotFoundError or InvalidResult without a readable specification."""
        trial = home.trial(folder)
        state = _state(home, folder)
        return cls(
            trial=trial,
            home=home,
            requested_at=_parse_moment(state.get("requested_at")) or datetime.now(timezone.utc),
            # The stop belongs to an earlier try.
            seen=replace(decode_observation(state["seen"]), stop=None)
            if "seen" in state
            else LaunchObservation(expected=trial.workload.nodes),
            started_at=_parse_moment(state.get("started_at")),
            replaced=Replacements.read(state.get("replaced", ())),
            signs=state.get("signs", False),
        )

    @classmethod
    def next(cls, spec: Mapping[str, str]) -> Attempt:
        """Announce the next attempt of a planned trial, at home and in the pods' store, before any of its objects exists.

        OSError if the home store or the archive, for the public signing key, cannot be written. If the pods' store cannot be written, the
        attempt is recorded as failed, and that failure is raised.
        """
        home = stores.home()
        trial = stores.next_attempt(stores.planned_trial(home, spec), home)
        key = stores.issue_signing_key(trial)
        attempt = cls(trial, home, datetime.now(timezone.utc), LaunchObservation(expected=trial.workload.nodes), signs=True, key=key)
        home.put_trial(trial)
        attempt.keep()
        try:
            stores.store_of(trial.provider).put_trial(trial, brief=True)
        except (OSError, ValueError, ImportError) as error:
            # Only other errors than these may be over in a minute.
            lasting = isinstance(error, PermissionError | FileNotFoundError | ValueError | ImportError)
            kind: type[TrialFailure] = BadDeclaration if lasting else Unreachable
            why = f"not launched: the pods' store {attempt.launcher.results_url} cannot be written: {error}"
            why = store_credentials.explain_refusal(why, trial.provider, here=True)
            attempt.refuse(kind(why))
            raise kind(why) from error
        return attempt

    @property
    def name(self) -> str:
        return names.launch_name(self.trial)

    @property
    def began(self) -> bool:
        return self.started_at is not None

    @property
    def launcher(self) -> KubernetesLauncher:
        return cluster_declaration(self.trial.provider)

    @property
    def providers_nodes(self) -> bool:
        """See LaunchObservation. A node that is named, as by `accept`, may be full of our own jobs."""
        return self.launcher.operated_by == "provider" and not self.trial.on_nodes

    def scaler_trouble(self, api: ClusterApi) -> str | None:
        """What keeps the scaler of the trial's servers from its work; None without one, or if it says nothing. ApiRefused; Unreachable."""
        served = serving_of(self.trial)
        kind = None if served is None or self.trial.workload.scale_out is None else SCALERS.get(served.scaling.by)
        scaler = None if kind is None else api.get(kind, self.name)
        return None if scaler is None else scaler_trouble(scaler)

    @property
    def owner(self) -> Row | None:
        """The manifest of the owner of a gang or of a trial's servers; None for a single pod."""
        if serving_of(self.trial) is not None:
            return guard.guard_job(self.trial, self.requested_at)
        return gang.gang_manifests(self.trial, requested_at=self.requested_at).owner if self.seen.expected > 1 else None

    @property
    def secret(self) -> str | None:
        """Name of the Secret with its signing key; None without a key."""
        return names.key_name(self.trial) if self.signs else None

    def create_guard(self, api: ClusterApi) -> Row | None:
        """Create the owner of a launch with servers, before all else of it: from then on it has a deadline in the cluster. None without servers."""
        if (declared := serving_of(self.trial)) is None:
            return None
        if (missing := serving.missing_scaler(declared, api.groups)) is not None:
            raise ApiRefused(404, "; ".join(missing))
        return api.create(guard.guard_job(self.trial, self.requested_at))

    def create_key_secret(self, api: ClusterApi, owner: Row | None = None) -> None:
        """Create the Secret of its signing key, before its first pod. Replacement pods use the same key."""
        if self.key is not None:
            row = signing_key_secret(self.trial, self.key, self.requested_at)
            api.create_secret(row if owner is None else gang.with_owner((row,), owner)[0])

    @property
    def servers(self) -> tuple[Row, ...]:
        """Manifests of the trial's Service, Deployment and scaler, if its provider serves it so."""
        declared = serving_of(self.trial)
        return () if declared is None else serving.serving_parts(self.trial, declared, self.requested_at)

    @property
    def pod_names(self) -> tuple[str, ...]:
        """Names of the attempt's pods; those of a gang's controller only once they were observed."""
        if self.seen.expected > 1 and self.launcher.gang != "pods":
            return tuple(map(name_of, self.seen.pods))
        return tuple(names.pod_name(self.trial, rank, len(self.replaced.done)) for rank in range(self.seen.expected))

    @property
    def poll_patience_s(self) -> float:
        """Patience of one poll: the pods cost money meanwhile."""
        return min(_POLL_PATIENCE_S, float(self.launcher.unreachable_timeout))

    def api(self, patience_s: float = API_PATIENCE_S) -> ClusterApi:
        return ClusterApi(self.launcher.connection, self.launcher.namespace, patience_s=patience_s)

    def lives(self) -> bool:
        """Whether any of its objects exists and is not being deleted."""
        api, owner = self.api(), self.owner
        items = [*api.pods(names.selector(self.trial)), *([api.get(owner["kind"], owner["metadata"]["name"])] if owner else [])]
        return any(item is not None and "deletionTimestamp" not in item["metadata"] for item in items)

    def goes_on(self) -> bool:
        # Between a pod and its replacement nothing of the launch may exist.
        return self.replaced.pending is not None or self.lives()

    def started(self, observation: LaunchObservation) -> None:
        """All its pods run: store the observation of their start."""
        self.started_at = datetime.now(timezone.utc)
        self.seen = poll_launch(self.api(self.poll_patience_s), names.selector(self.trial), merge_observations(self.seen, observation))
        # A store's outage must not end the watch of the pods.
        tolerate("keep what was seen when the pods started", self.keep, None)

    def keep(self) -> None:
        """Store the observation so far and the preliminary record."""
        self.save_state()
        self.record("interrupted", UNFINISHED)

    def save_state(self) -> None:
        state = {
            "requested_at": self.requested_at.isoformat(),
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "seen": encode_observation(self.seen),
            "replaced": self.replaced.rows(),
            "signs": self.signs,
        }
        self.home.put(f"{self.home.folder(self.trial)}/{_STATE}", json.dumps(state, indent=1).encode())

    def record(
        self, failure: FailureClass | None, detail: str | None, log_tail: str = "", removed_at: datetime | None = None
    ) -> LaunchRecord:
        """Store launch.json. `removed_at`: when the last object was gone."""
        if failure in PROVIDER_FAULTS and self.trial.provider.launcher.hosted:
            # The cluster is where the client runs: what it lacks says nothing of the endpoint.
            failure, detail = "launch_timeout", f"the client found no node: {failure}: {detail}"
        current = pod_records.pod_records(self.seen)
        pods = (*(record for each in self.replaced.done for record in each.record()), *current)
        events = pod_records.launch_events(self.seen, self.requested_at)
        if self.replaced.done:  # the launch starts with the first pod and ends with the last one
            first = pod_records.launch_events(self.replaced.done[0].seen, self.requested_at)
            between = [event for each in self.replaced.done for event in each.events()]
            events = (*first, *between, *(event for event in events if event.name == "finished"))
        if removed_at is not None:
            events = (*events, Event(name="deleted", utc=removed_at, clock="launcher"))
        host: dict[str, Scalar] = {"host.name": pods[0].node} if pods and pods[0].node else {}
        record = LaunchRecord(
            launcher="kubernetes",
            events=events,
            exit_code=current[0].exit_code if current else None,
            failure_class=failure,
            failure_detail=detail,
            node={"kubernetes.launch": self.name, "kubernetes.namespace": self.launcher.namespace, **host},
            log_tail=log_tail,
            pods=pods,
        )
        self.home.put_launch(self.trial, record)
        return record


def _state(home: ResultStore, folder: str) -> Row:
    """The content of cluster.json; empty if the announcing process died before it was written."""
    try:
        state: Row = json.loads(home.get(f"{folder}/{_STATE}"))
    except FileNotFoundError:
        return {}
    return state


def _parse_moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
