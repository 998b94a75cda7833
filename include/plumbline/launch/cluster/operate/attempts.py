"""One attempt on a cluster, from announcement to record, with the pods that a declared fault replaces."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from plumbline.declarations import KubernetesLauncher, Trial
from plumbline.harness.launcher_protocol import Deletion
from plumbline.launch import stores
from plumbline.launch.cluster import manifests, names, store_credentials
from plumbline.launch.cluster.api import API_PATIENCE_S, ClusterApi
from plumbline.launch.cluster.manifests import gang
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import LaunchObservation, Row, decode_observation, encode_observation, has_ended, name_of, pod_records
from plumbline.launch.cluster.observe.polling import merge_observations, poll_launch, read_logs, tolerate
from plumbline.launch.failures import BadDeclaration, TrialFailure, Unreachable
from plumbline.results import Event, FailureClass, InvalidResult, LaunchRecord, PodRecord, ResultStore, Scalar, Validity
from plumbline.results.signing import KeyPair

_log = logging.getLogger(__name__)

_POLL_S = 0.5
_GONE_S = 120.0
"""How long a pod that was deleted without grace may still be shown: only a finalizer holds it then."""


@dataclass
class ReplacedPod:
    """One pod that is deleted so that another one takes its place, by the launcher's clock. `seen`: everything that was seen of it.

    `gone_at` is None until it was seen to be gone, `created_at` until the next one was created. `late`: more than one process was needed.
    """

    name: str
    seen: LaunchObservation
    asked_at: datetime
    gone_at: datetime | None = None
    created_at: datetime | None = None
    late: bool = False

    def row(self) -> Row:
        """As JSON."""
        moments = {name: at and at.isoformat() for name, at in self._moments().items()}
        return {"name": self.name, "late": self.late, "seen": encode_observation(self.seen), **moments}

    @classmethod
    def read(cls, row: Row) -> ReplacedPod:
        """What `row` made."""
        at = {name: datetime.fromisoformat(row[name]) for name in ("asked_at", "gone_at", "created_at") if row[name]}
        return cls(row["name"], decode_observation(row["seen"]), late=row["late"], **at)

    def events(self) -> list[Event]:
        """The moments of the launch."""
        called = {"asked_at": "pod_deletion_asked", "gone_at": "pod_seen_gone", "created_at": "pod_replaced"}
        return [Event(name=called[name], utc=at, clock="launcher") for name, at in self._moments().items() if at is not None]

    def record(self) -> tuple[PodRecord, ...]:
        """The pod's record: it held its node until it was gone."""
        gone = () if self.gone_at is None else (Event(name="deleted", utc=self.gone_at, clock="launcher"),)
        return tuple(pod.model_copy(update={"events": (*pod.events, *gone)}) for pod in pod_records.pod_records(self.seen))

    def _moments(self) -> dict[str, datetime | None]:
        return {"asked_at": self.asked_at, "gone_at": self.gone_at, "created_at": self.created_at}


@dataclass
class Replacements:
    """The pods of an attempt that others took the place of, in their order."""

    done: list[ReplacedPod] = field(default_factory=list)

    @property
    def pending(self) -> ReplacedPod | None:
        """The one under way: the next pod is not known to have been created."""
        return self.done[-1] if self.done and self.done[-1].created_at is None else None

    @property
    def since(self) -> datetime | None:
        """From when on the current pod is waited for; None of the first one."""
        return self.done[-1].gone_at if self.done else None

    @property
    def deletions(self) -> tuple[Deletion, ...]:
        """What the next pod is told of those before it."""
        return tuple(
            Deletion(each.asked_at.timestamp(), each.gone_at.timestamp(), each.late) for each in self.done if each.gone_at is not None
        )

    def rows(self) -> list[Row]:
        """As JSON."""
        return [each.row() for each in self.done]

    @classmethod
    def read(cls, rows: Sequence[Row]) -> Replacements:
        """What `rows` made."""
        return cls([ReplacedPod.read(row) for row in rows])


def begin_replacement(attempt: Attempt, seen: LaunchObservation) -> bool:
    """The pod asks to be deleted: keep that this is to happen, and what is known of the pod. Whether it is there for it.

    One that ended or vanished meanwhile did so by itself, and that is how the attempt ended.
    """
    api, name = attempt.api(attempt.poll_patience_s), attempt.pod_names[0]
    there = attempt.api().get("Pod", name)
    attempt.seen = poll_launch(api, names.selector(attempt.trial), merge_observations(attempt.seen, seen))
    if there is None or has_ended(there):
        return False
    text, _ = read_logs(api, attempt.seen, most_s=attempt.poll_patience_s)
    log = f"{attempt.home.folder(attempt.trial)}/launch.{len(attempt.replaced.done)}.log"
    tolerate("store the log of the pod that is deleted", partial(attempt.home.put, log, text), None)
    attempt.replaced.done.append(ReplacedPod(name, attempt.seen, _now()))
    attempt.seen, attempt.started_at = LaunchObservation(expected=attempt.seen.expected), None
    attempt.save_state()
    return True


def delete_replaced_pod(attempt: Attempt, api: ClusterApi) -> None:
    """Delete the pod that is to be replaced, if it is there, without grace, and see it gone. Refused; Unreachable, also if it stays."""
    replaced = attempt.replaced.pending
    if replaced is None:
        raise ValueError(f"no pod of {attempt.trial.trial_id} is to be replaced")
    if replaced.gone_at is not None:
        return
    if api.get("Pod", replaced.name) is not None:
        replaced.asked_at = _now()
        api.delete("Pod", replaced.name, grace_s=0)
        until = time.monotonic() + _GONE_S
        while api.get("Pod", replaced.name) is not None:
            if time.monotonic() > until:
                raise Unreachable(
                    f"pod {replaced.name} is still there {_GONE_S:.0f} s after it was deleted without grace; a finalizer holds it"
                )
            time.sleep(_POLL_S)
    replaced.gone_at = _now()
    _log.info("Pod %s is gone, as its fault pod_delete asked; pod %s takes its place.", replaced.name, attempt.pod_names[0])
    attempt.save_state()


def confirm_replacement(attempt: Attempt) -> None:
    """The next pod is there. OSError if that cannot be kept; then the next process finds it there."""
    replaced = attempt.replaced.pending
    if replaced is not None:
        replaced.created_at = _now()
        attempt.save_state()


def _now() -> datetime:
    return datetime.now(timezone.utc)


# One attempt of a trial on a cluster, from its announcement to its record; without Airflow.
#
# Beside trial.json and launch.json the attempt's folder in the home store holds cluster.json: what the cluster showed so far, as it showed
# it. Clusters forget events within an hour and pods when they are deleted, and an attempt may be taken up by another process at any time.


UNFINISHED = "the launch was ended from outside before it was over, and nobody came back to record how it ended"
"""Detail of a preliminary record: whatever dies when, this is what it says until somebody knows better."""
GRACE_S = 30
"""Between SIGTERM and SIGKILL of a pod."""
_POLL_PATIENCE_S, _KILL_S = 30.0, 2.0
_STATE = "cluster.json"


@dataclass
class Attempt:
    """An announced attempt. `started_at` is None until all its pods ran; `seen` is everything that was seen of it so far.

    `replaced`: pods that were deleted as the trial's fault asked; `seen` and `started_at` are of the one that took their place.
    `signs`: a signing key was issued for it. `key`: that key, in the process that announced the attempt until its Secret is created; it is
    stored nowhere else."""

    trial: Trial
    home: ResultStore
    requested_at: datetime
    seen: LaunchObservation
    started_at: datetime | None = None
    replaced: Replacements = field(default_factory=Replacements)
    signs: bool = False
    key: KeyPair | None = field(default=None, repr=False)

    @classmethod
    def newest(cls, spec: Mapping[str, str]) -> Attempt | None:
        """The attempt that was announced last; None if there was none yet."""
        home = stores.home()
        folders = home.announced(spec["campaign_id"], spec["trial_id"])
        if not folders:
            return None
        return cls.at(home, folders[-1])

    @classmethod
    def at(cls, home: ResultStore, folder: str) -> Attempt:
        """The announced attempt of a folder. FileNotFoundError or BadResult if its specification cannot be read."""
        trial = home.trial(folder)
        state = _state(home, folder)
        return cls(
            trial=trial,
            home=home,
            requested_at=_parse_moment(state.get("requested_at")) or datetime.now(timezone.utc),
            # A reason to stop is of the try that stopped.
            seen=replace(decode_observation(state["seen"]), stop=None)
            if "seen" in state
            else LaunchObservation(expected=trial.workload.nodes),
            started_at=_parse_moment(state.get("started_at")),
            replaced=Replacements.read(state.get("replaced", ())),
            signs=state.get("signs", False),
        )

    @classmethod
    def next(cls, spec: Mapping[str, str]) -> Attempt:
        """Announce the next attempt of a planned trial, at home and where the pods read it, before anything of it exists.

        OSError if the home store or the archive, which takes the public half of its signing key, cannot be written. If the other store
        cannot, the attempt is recorded as failed, and that is raised.
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
            # What is forbidden, not there or declared wrongly stays so; anything else may be over in a minute.
            lasting = isinstance(error, PermissionError | FileNotFoundError | ValueError | ImportError)
            kind: type[TrialFailure] = BadDeclaration if lasting else Unreachable
            why = f"nothing was launched: the store that its pods would read it from, {attempt.launcher.results_url}, refused: {error}"
            why = store_credentials.explain_refusal(why, trial.provider, here=True)
            attempt.refuse(kind(why))
            raise kind(why) from error
        return attempt

    @property
    def launcher(self) -> KubernetesLauncher:
        """How the provider is reached."""
        return cluster_declaration(self.trial.provider)

    @property
    def owner(self) -> Row | None:
        """The object that owns a gang's pods, as it is asked for; None for a pod on its own."""
        return gang.gang_manifests(self.trial, requested_at=self.requested_at).owner if self.seen.expected > 1 else None

    @property
    def secret(self) -> str | None:
        """Name of the Secret that hands its signing key to its pods; None if it has no key."""
        return names.key_name(self.trial) if self.signs else None

    def create_key_secret(self, api: ClusterApi) -> None:
        """Create the Secret of its signing key, before its first pod. One key for the attempt: a pod that takes another's place reads it too."""
        if self.key is not None:
            api.create_secret(manifests.signing_key_secret(self.trial, self.key, self.requested_at))

    @property
    def pod_names(self) -> tuple[str, ...]:
        """Names of its pods, as far as they are known before somebody saw them: a controller gives its pods names of its own."""
        if self.seen.expected > 1 and self.launcher.gang != "pods":
            return tuple(map(name_of, self.seen.pods))
        return tuple(names.pod_name(self.trial, rank, len(self.replaced.done)) for rank in range(self.seen.expected))

    @property
    def poll_patience_s(self) -> float:
        """Patience with a look: what it shows is wanted, but the pods cost money while it is tried."""
        return min(_POLL_PATIENCE_S, float(self.launcher.unreachable_timeout))

    def api(self, patience_s: float = API_PATIENCE_S) -> ClusterApi:
        """The provider's cluster."""
        return ClusterApi(self.launcher.connection, self.launcher.namespace, patience_s=patience_s)

    def lives(self) -> bool:
        """Whether something of it is on the cluster that nobody is deleting."""
        api, owner = self.api(), self.owner
        held = [*api.pods(names.selector(self.trial)), *([api.get(owner["kind"], owner["metadata"]["name"])] if owner else [])]
        return any(item is not None and "deletionTimestamp" not in item["metadata"] for item in held)

    def refuse(self, failure: TrialFailure) -> None:
        """Record that nothing of it was ever asked of the cluster, and why."""
        self.record(failure.failure_class, str(failure))

    def started(self, seen: LaunchObservation) -> None:
        """All its pods run: keep what the cluster still remembers of how they got there."""
        self.started_at = datetime.now(timezone.utc)
        self.seen = poll_launch(self.api(self.poll_patience_s), names.selector(self.trial), merge_observations(self.seen, seen))
        # A store that is away for a moment is no reason to leave pods without their watch.
        tolerate("keep what was seen when the pods started", self.keep, None)

    def kill(self) -> None:
        """Ask for the deletion of what there is, at once, without waiting and without a record: the caller has seconds to live."""
        api = ClusterApi(self.launcher.connection, self.launcher.namespace, patience_s=_KILL_S, timeout_s=_KILL_S)
        if (owner := self.owner) is not None:
            api.delete(owner["kind"], owner["metadata"]["name"])
        if (secret := self.secret) is not None:
            api.delete("Secret", secret)
        pending = self.replaced.pending
        for name in (*self.pod_names, *([pending.name] if pending else [])):
            api.delete("Pod", name)

    def validity(self) -> Validity | None:
        """What the pods' document says; None if there is none that can be believed. One that their log brought home counts as well.

        OSError if their store does not answer and no document is at home.
        """
        folder = self.home.folder(self.trial)
        try:
            try:
                document = stores.store_of(self.trial.provider).document(folder)
            except OSError as error:
                if not self.home.exists(f"{folder}/result.json"):
                    if isinstance(error, FileNotFoundError):
                        return None
                    raise
                document = self.home.document(folder)
        except InvalidResult as error:
            _log.warning("%s", error)
            return None
        if document.trial != self.trial:  # of another installation, or of this one before its home was lost
            _log.warning("%s holds a document of another trial: nothing of this one", document.trial.trial_id)
            return None
        return document.validity

    def keep(self) -> None:
        """What is known so far, and that nobody knows the end yet."""
        self.save_state()
        self.record("interrupted", UNFINISHED)

    def save_state(self) -> None:
        """Store what was seen, as it was seen."""
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
        """Store launch.json: what became of it, as far as is known. `removed_at`: when the last of it was gone."""
        current = pod_records.pod_records(self.seen)
        pods = (*(record for each in self.replaced.done for record in each.record()), *current)
        events = pod_records.launch_events(self.seen, self.requested_at)
        if self.replaced.done:  # how the launch came about is the first pod's to tell, how it ended the last one's
            first = pod_records.launch_events(self.replaced.done[0].seen, self.requested_at)
            between = [event for each in self.replaced.done for event in each.events()]
            events = (*first, *between, *(event for event in events if event.name == "finished"))
        if removed_at is not None:
            events = (*events, Event(name="deleted", utc=removed_at, clock="launcher"))
        record = LaunchRecord(
            launcher="kubernetes",
            events=events,
            exit_code=current[0].exit_code if current else None,
            failure_class=failure,
            failure_detail=detail,
            node={"kubernetes.launch": names.launch_name(self.trial), "kubernetes.namespace": self.launcher.namespace, **_host_fact(pods)},
            log_tail=log_tail,
            pods=pods,
        )
        self.home.put_launch(self.trial, record)
        return record


def _state(home: ResultStore, folder: str) -> Row:
    """What was kept of an attempt; empty if whoever announced it died before it was."""
    try:
        state: Row = json.loads(home.get(f"{folder}/{_STATE}"))
    except FileNotFoundError:
        return {}
    return state


def _parse_moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _host_fact(pods: Sequence[PodRecord]) -> dict[str, Scalar]:
    return {"host.name": pods[0].node} if pods and pods[0].node else {}
