"""A training trial whose pod is deleted, in real processes: each stands for a pod, and a folder for the volume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fakes.trials import a_trial, cluster_provider
from tests.integration.test_training_script import TRAIN, script

from plumbline.declarations import Trial, series_key
from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, VOLUME_VARIABLE, Deletion, format_deletions, parse_deletion_request
from plumbline.results import FAILED_AS_DECLARED, ResultDocument, ResultStore

# A step takes tens of milliseconds, so that the steady phase lasts many ticks of the kernel's CPU clock and contention can be observed.
SMALL = {
    "model": {"architecture": "gpt", "layers": 2, "width": 64, "heads": 2, "vocabulary": 128, "context": 64, "seed": 7},
    "data": {"source": "synthetic", "tokens": 65536, "seed": 11},
    "batch": {"micro": 64, "accumulation": 1, "sequence": 64},
    "steps": {"discard": 3, "measure": 17},
    "checkpoint": {"every": 6, "keep": 1},
    "loss": None,
}
LAUNCHER_WAITED_S = 1.5


class Pods:
    """The pods of one trial, one after the other."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        self.volume, self.store = folder / "volume", ResultStore((folder / "results").as_uri())
        self.provider = cluster_provider(results_url=self.store.url, volume_claim="checkpoints")
        self.trial: Trial = a_trial(provider=self.provider, declare={**SMALL, **declared})
        self.deletions: tuple[Deletion, ...] = ()
        self._folder = folder
        self.volume.mkdir()
        (folder / "trial.json").write_text(self.trial.model_dump_json())

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """The next pod's process."""
        home = self._folder / f"pod-{len(self.deletions)}"
        home.mkdir()
        command = [sys.executable, "-m", "plumbline.harness", "run", "--trial", str(self._folder / "trial.json"), "--out", self.store.url]
        given = {
            VOLUME_VARIABLE: str(self.volume),
            DELETIONS_VARIABLE: format_deletions(self.deletions),
            "PLUMBLINE_HOME": str(home),
            **variables,
        }
        return subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def deleted(self, *, late: bool = False, number: signal.Signals = signal.SIGKILL) -> int:
        """Start the next pod, and delete it some time after it has asked for that; which deletion it asked for."""
        process = self.start()
        assert process.stdout is not None
        asked = next((found for line in process.stdout if (found := parse_deletion_request(line)) is not None), None)
        assert asked is not None, process.communicate()[1]
        time.sleep(LAUNCHER_WAITED_S)
        at = time.time()
        process.send_signal(number)
        process.communicate()
        self.deletions = (*self.deletions, Deletion(at, time.time(), late))
        return asked

    def ends(self) -> tuple[int, ResultDocument]:
        """Start the next pod and let it end; its exit status and the document."""
        process = self.start()
        process.communicate()
        return process.returncode, self.store.document(self.store.folder(self.trial))


def values(document: ResultDocument) -> dict[str, float]:
    return {row.metric: row.value for row in document.metrics if row.phase == "recovery" and row.value is not None}


def evidence(pods: Pods, document: ResultDocument, kind: str) -> list[dict[str, Any]]:
    (found,) = [item for item in document.evidence if item.kind == kind]
    folder = Path(pods.store.url.removeprefix("file://")) / pods.store.folder(pods.trial)
    return pq.read_table(folder / found.uri).to_pylist()  # type: ignore[no-any-return]


def codes(document: ResultDocument) -> set[str]:
    return {reason.code for reason in document.validity.reasons}


@pytest.mark.full
@pytest.mark.fault(
    "the pod of a training is deleted and replaced",
    ends="valid, with its restart penalty",
    keeps="checkpoints on the volume; one document of both pods",
)
def test_the_next_pod_goes_on_and_writes_the_one_document(tmp_path: Path) -> None:
    pods = Pods(tmp_path, fault={"inject": "pod_delete", "at_step": 10})
    assert pods.deleted() == 1
    with pytest.raises(FileNotFoundError):
        pods.store.document(pods.store.folder(pods.trial))
    status, document = pods.ends()
    assert status == 0, document.validity
    assert {"losses_continue_exactly", "checkpoint_restored_exactly"} <= set(
        document.reproducibility.guarantees if document.reproducibility else ()
    )
    assert not codes(document) & {"contention_unobserved", "environment_changed", "launcher_interrupted", "unplanned_restart"}
    value, steps = values(document), evidence(pods, document, "steps")
    parts = [value[name] for name in ("restart_detect_time", "restart_launch_time", "checkpoint_load_time", "restart_recompute_time")]
    assert all(part > 0 for part in parts) and sum(parts) == pytest.approx(value["restart_penalty"])
    ended = {(row["run"], row["step"]): row["start_s"] + row["step_s"] for row in steps}
    assert [run for run, step in ended if step == 10] == ["run", "recovery"] and ("fault", 9) in ended
    assert value["restart_penalty"] == pytest.approx(ended["recovery", 10] - ended["fault", 9], rel=0.05)
    assert parts[0] == pytest.approx(pods.deletions[0].gone_s - pods.deletions[0].asked_s, abs=1e-3)
    names = [event.name for event in document.timeline]
    assert (
        names.index("environment_probed") < names.index("pod_deleted") < names.index("pod_seen_gone") < names.index("lost_step_done_again")
    )
    assert names.count("harness_started") == 2 and names.count("environment_probed") == 1, "what was looked at once is not looked at again"
    assert {row.phase for row in document.telemetry} >= {"environment", "steady", "recovery"}, "of both pods"
    assert any(row.metric == "step_time" and row.phase == "steady" for row in document.metrics)
    assert list(pods.volume.iterdir()) == []


@pytest.mark.full
@pytest.mark.fault("the pod is deleted more often than restarts allow", ends="interrupted", keeps="each attempt in the evidence")
def test_deleted_more_often_than_restarts_it_fails_as_declared(tmp_path: Path) -> None:
    pods = Pods(tmp_path, fault={"inject": "pod_delete", "at_step": 10, "times": 2}, restarts=1)
    assert [pods.deleted(), pods.deleted(late=True)] == [1, 2]
    status, document = pods.ends()
    assert (status, document.validity.failure_class) == (3, "interrupted")
    assert FAILED_AS_DECLARED in codes(document)
    assert [(row["run"], row["ending"]) for row in evidence(pods, document, "attempts")] == [
        ("run", None),
        ("fault", "pod_delete"),
        ("fault-2", "pod_delete"),
    ]
    assert list(pods.volume.iterdir()) == []


@pytest.mark.full
def test_the_kubelets_sigterm_leaves_no_document_and_a_late_launcher_is_told(tmp_path: Path) -> None:
    pods = Pods(tmp_path, fault={"inject": "pod_delete", "at_step": 10})
    old, new, others = "trial-" + "0" * 16, "trial-" + "1" * 16, "trial-of-others"
    for name, expires in ((old, 1.0), (new, time.time() + 3600), (others, 1.0)):
        (pods.volume / name).mkdir()
        (pods.volume / name / "expires").write_text(json.dumps(expires))
    pods.deleted(late=True, number=signal.SIGTERM)
    kept = {folder.name for folder in pods.volume.iterdir()}
    assert {new, others} < kept and old not in kept and len(kept) == 3, "the deletion takes nothing with it; what had expired is gone"
    status, document = pods.ends()
    assert status == 0 and "launcher_interrupted" in codes(document)


@pytest.mark.fault("the volume does not outlive its pod", ends="bad_declaration", keeps="the message names launcher.volume_claim")
def test_a_volume_that_does_not_outlive_the_pod_is_told(tmp_path: Path) -> None:
    pods = Pods(tmp_path, fault={"inject": "pod_delete", "at_step": 10})
    pods.deletions = (Deletion(time.time(), time.time()),)
    status, document = pods.ends()
    assert (status, document.validity.failure_class) == (3, "bad_declaration")
    assert "launcher.volume_claim" in document.validity.reasons[0].detail


@pytest.mark.full
@pytest.mark.fault("the pod of a training script is deleted and replaced", ends="valid, with its restart penalty", keeps="its checkpoints")
def test_the_pod_of_a_script_is_deleted_and_the_next_one_goes_on(tmp_path: Path) -> None:
    fault = {"inject": "pod_delete", "at_step": 9}
    pods = Pods(tmp_path, fault=fault)
    task = {"command": [sys.executable, "train.py", "--pause=0.1"]}
    trial = script(tmp_path, TRAIN, task, fault=fault, deterministic=True)
    pods.trial = trial.model_copy(update={"provider": pods.provider, "series_key": series_key(trial.workload, pods.provider)})
    (tmp_path / "trial.json").write_text(pods.trial.model_dump_json())
    assert pods.deleted() == 1
    code, document = pods.ends()
    assert (code, document.validity.failure_class) == (0, None), document.validity
    assert not codes(document) & {"environment_changed", "launcher_interrupted", "unplanned_restart", "losses_diverge_after_resume"}
    value = values(document)
    parts = [value[name] for name in ("restart_detect_time", "restart_launch_time", "restart_recompute_time")]
    assert value["restart_penalty"] == pytest.approx(sum(parts)) and min(parts) >= 0
    assert [row["step"] for row in evidence(pods, document, "steps") if row["run"] != "run"] == [*range(9), *range(6, 12)], (
        "it waits when held"
    )
    assert document.value("tokens_per_second") and document.reproducibility is not None
    assert "losses_continue_exactly" in document.reproducibility.guarantees
    assert list(pods.volume.iterdir()) == []
