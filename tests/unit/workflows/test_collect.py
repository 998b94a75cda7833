"""A campaign whose bucket, or whose archive, is away for two hours in its middle: afterwards every measured trial is in the archive."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from fsspec.registry import _registry
from sqlalchemy.exc import OperationalError
from tests.data.result_documents import FACTS, believed_training_metrics
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.pod_harness import signed
from tests.fakes.trials import PLANNED_AT, a_trial, cluster_provider, declared

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Trial, installation_paths
from plumbline.harness import delivery
from plumbline.harness.interruption import Interruption
from plumbline.launch import stores
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.closing import close_attempt
from plumbline.launch.plan import RunRequest, plan
from plumbline.results import Environment, Event, Evidence, Reason, ResultDocument, ResultStore, Validity
from plumbline.results import store as result_store
from plumbline.workflows import collect, plan_trials, record, validate
from plumbline.workflows.collect import collect_campaign

NS, CAMPAIGN, HOUR = "plumbline", "2026-11", 3600.0
METRICS = believed_training_metrics()


class Clock:
    """Time that passes only while somebody waits; the bucket is away between two moments of it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.away = (float("inf"), float("inf"))

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def checked(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*arguments: Any, **more: Any) -> Any:
            if self.away[0] <= self.now < self.away[1]:
                raise OSError("no route to host")
            return operation(*arguments, **more)

        return tried


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for module in (delivery, result_store):
        monkeypatch.setattr(module, "time", clock)

    class Bucket(MemoryFileSystem):  # type: ignore[misc]  # fsspec's types are not followed
        protocol = "s3"
        cachable = False
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(super()._strip_protocol(path.replace("s3://", "memory://")))

    for name in ("pipe_file", "cat_file", "exists", "ls"):
        setattr(Bucket, name, clock.checked(getattr(MemoryFileSystem, name)))
    monkeypatch.setitem(_registry, "s3", Bucket)
    return clock


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json(NS))
        yield running


def planned(repeats: int, *, timeout: str = "4h") -> list[Trial]:
    shipped, provider = declared(), cluster_provider(results_url="s3://bucket/r", timeout=timeout, unreachable_timeout="1s")
    workload = a_trial(provider=provider).workload
    world = Declarations({provider.name: provider}, {workload.name: workload}, shipped.teams, shipped.thresholds)
    trials = plan(world, provider, RunRequest(CAMPAIGN, "a test", workloads=(workload.name,), repeats=repeats), PLANNED_AT)
    trials = [trial.model_copy(update={"selfcheck": False}) for trial in trials[:repeats]]
    for trial in trials:
        plan_trials.store_planned_trial(stores.home(), trial)
    return trials


def spec(trial: Trial) -> dict[str, str]:
    return {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id, "title": trial.trial_id}


def home_trial(url: str) -> Trial:
    """The specification behind a pod's URL; the copy at home, which is there also while the bucket is away."""
    campaign, trial_id, attempt = url.split("/")[-4:-1]
    return stores.home().trial(f"{campaign}/{trial_id}/{attempt}")


def pod(left_s: float) -> Callable[[PodRun], int]:
    """A pod that has measured and delivers its document as the harness does, with `left_s` of its trial's time left."""

    def process(run: PodRun) -> int:
        arguments = run.row["spec"]["containers"][0]["args"]
        url, out = (arguments[arguments.index(name) + 1] for name in ("--trial", "--out"))
        trial = home_trial(url)

        def seal(evidence: Sequence[Evidence], reasons: Sequence[Reason]) -> ResultDocument:
            document = ResultDocument.sealed(
                trial=trial,
                harness_version="0.1.0",
                environment=Environment.of(FACTS),
                validity=Validity(status="valid", reasons=tuple(reasons)),
                timeline=(Event(name="finished", utc=datetime.now(timezone.utc)),),
                metrics=METRICS,
                evidence=tuple(evidence),
            )
            return signed(run, document)

        with redirect_stdout(io.StringIO()) as printed:
            try:
                delivery.deliver(ResultStore(out, patience_s=300.0), trial, [], seal, Interruption(), left_s)
            except delivery.DeliveryFailed as error:
                status, said = 1, f"{out}: the result document could not be stored: {error}"
            else:
                status, said = 0, "stored"
        run.say(*printed.getvalue().splitlines(), said)
        return status

    return process


def announced(trial: Trial) -> Attempt:
    return ClusterLauncher().adopt(spec(trial))[0]


def measured(kube: FakeKubernetes, attempt: Attempt, left_s: float) -> None:
    """The attempt's pod, from its creation to its end and its record."""
    kube.script("*", Script().started().runs(pod(left_s)))
    attempt.create_key_secret(attempt.api())
    attempt.api().create(pod_manifest(attempt.trial, requested_at=attempt.requested_at))
    kube.wait_for(lambda: {p["status"].get("phase") for p in kube.pods().values()} <= {"Succeeded", "Failed"}, "it is over")
    record = close_attempt(attempt)
    assert record.failure_class is None, record.failure_detail


@pytest.mark.full
@pytest.mark.fault("a bucket is away for two hours in a campaign", ends="valid", keeps="every trial that was measured")
def test_every_measured_trial_outlives_a_bucket_that_is_away_for_two_hours(clock: Clock, kube: FakeKubernetes) -> None:
    trials = planned(4)
    before, uncollected, waits, prints = map(announced, trials)
    measured(kube, before, 4 * HOUR)
    collect.collect_trial(spec(before.trial))
    measured(kube, uncollected, 4 * HOUR)
    clock.away = (clock.now, clock.now + 2 * HOUR)
    for _ in range(7):  # the first try of its `collect` and the six that follow
        with pytest.raises(OSError, match="no route"):
            collect.collect_trial(spec(uncollected.trial))
    measured(kube, prints, 0.5 * HOUR)
    assert clock.now < clock.away[1], "its time was over before the bucket was back: its log brings it home"
    measured(kube, waits, 4 * HOUR)
    assert clock.now >= clock.away[1]
    for attempt in (prints, waits):
        collect.collect_trial(spec(attempt.trial))
    rows = validate.validate_group("cluster-a", "training", map(spec, trials))
    assert [row["trial_id"] for row in rows] == [attempt.trial.trial_id for attempt in (before, waits, prints)]
    record.record_group(rows).require_all()
    assert recorded_by_hand() == {trial.trial_id: "valid" for trial in trials}
    assert kube.leftovers() == []


@pytest.mark.fault("the archive's database is away for two hours", ends="valid", keeps="every trial that was measured")
def test_every_measured_trial_outlives_an_archive_that_is_away(clock: Clock, kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = planned(3)
    for trial in trials:
        measured(kube, announced(trial), 4 * HOUR)
        collect.collect_trial(spec(trial))
    first, *others = validate.validate_group("cluster-a", "training", map(spec, trials))
    record.record_group([first]).require_all()
    database = installation_paths().archive_url
    with closing(socket.socket()) as taken:  # a port that refuses
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", f"postgresql+psycopg://plumbline@127.0.0.1:{taken.getsockname()[1]}/archive")
        with pytest.raises(OperationalError):
            record.record_group(others)
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", database)
    assert recorded_by_hand() == {trial.trial_id: "valid" for trial in trials}


def recorded_by_hand() -> dict[str, str]:
    """What the archive holds after `plumbline archive collect`, and after it once more."""
    with open_archive() as archive:
        for _ in range(2):
            assert not [one for one in collect_campaign(archive, CAMPAIGN) if one.problem]
        assert archive.verify() == []
        return {trial.trial_id: trial.status for trial in archive.trials(CAMPAIGN)}


@pytest.mark.fault("a result document is changed in its bucket", ends="named by `archive collect`", keeps="the document, in quarantine")
def test_a_changed_document_is_named(clock: Clock, kube: FakeKubernetes) -> None:
    changed, sound = planned(2)
    for trial in (changed, sound):
        measured(kube, announced(trial), 4 * HOUR)
    (path,) = [name for name in _registry["s3"].store if changed.trial_id in name and name.endswith("result.json")]
    document = _registry["s3"].store[path]
    _registry["s3"].store[path] = MemoryFile(document.fs, path, document.getvalue().replace(b"400.0", b"401.0"))
    with open_archive() as archive:
        done = {one.trial_id: one for one in collect_campaign(archive, CAMPAIGN)}
    assert done[sound.trial_id].quarantined == ()
    (reason,) = done[changed.trial_id].quarantined
    assert "hashes to" in reason
