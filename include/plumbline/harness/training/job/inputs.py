"""What the runs of a trial are made from: our own loop's data, or a script's files and data. Each node prepares its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from plumbline.declarations import Provider, Trial, digest
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.declarations.workloads.script import DATA_ARGUMENT, DATA_VARIABLE, ScriptWorkload
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.formats import COMMAND_OUTPUTS
from plumbline.harness import launcher_protocol
from plumbline.harness.inference.checkpoint.cache import Note
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training import plan
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.log_seal import ForgedLog, key_of_this_process
from plumbline.harness.training.script.data import place_data
from plumbline.harness.training.script.files import place_files, start_folder
from plumbline.harness.training.worker_protocol import HoldPoint, LogTail, RunName, RunSpec, ScriptSpec, run_kind

_CHECKPOINTS = "step-" + "[0-9]" * 8


class OwnInputs:
    """The data of our own loop, below `cache`; runs have their checkpoints below `folder`."""

    of_script = False

    def __init__(self, workload: TrainingWorkload, folder: Path, cache: Path, device: str) -> None:
        self._workload, self._folder, self._device = workload, folder, device
        self._data = prepare_inputs(workload, cache)
        self.sha256 = self._data.sha256

    def spec(self, name: RunName, *, resume: bool) -> RunSpec:
        """The orders of a run, before each rank has its own."""
        return plan.run_spec(name, self._workload, self._data, self._folder, device=self._device, resume=resume)

    def resumes(self, name: RunName) -> bool:
        """Whether a run goes on from a checkpoint: what broke off before its first one starts again."""
        return run_kind(name) != "run" or any((self._folder / "checkpoints").glob(_CHECKPOINTS))


class ScriptInputs:
    """The files of a script, and its data. The faulted stretch begins again in a copy of its own, so that it has no checkpoint of the undisturbed run."""

    of_script = True

    def __init__(self, workload: ScriptWorkload, provider: Provider, folder: Path, device: str, note: Note) -> None:
        self._workload, self._folder, self._device = workload, folder, device
        self._given, self._home = _of_command(provider, folder)
        self._files, hashed = folder / "files", folder / "files.sha256"
        if not hashed.exists():  # else an earlier pod placed them
            hashed.write_text(place_files(workload.task, self._files))
        self.sha256 = hashed.read_text()
        self.data = place_data(workload, provider, folder, launcher_protocol.take_models_credentials(), note)

    def spec(self, name: RunName, *, resume: bool) -> ScriptSpec:
        """See OwnInputs. TrialFailed if its files cannot be copied, or the script wrote to a log of before."""
        workload, task, fault, kind = self._workload, self._workload.task, plan.plan_fault(self._workload), run_kind(name)
        place, data = self._stretch(kind), {} if self.data is None else {DATA_VARIABLE: self.data.place}
        arguments = (*task.command, *((task.resume_arguments or ()) if resume else ()))
        if not resume:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self._files, place, symlinks=True)
        return ScriptSpec(
            command=tuple(argument.replace(DATA_ARGUMENT, data.get(DATA_VARIABLE, DATA_ARGUMENT)) for argument in arguments),
            folder=str(start_folder(task, place)),
            environment=task.environment | data,
            report=task.report.model_dump(mode="json"),
            base=self._saved(kind) if resume else 0,
            checkpoint_folder=task.checkpoints.folder if task.checkpoints is not None else "",
            checkpoint_every=workload.checkpoint_every,
            launches_ranks=task.launches_ranks,
            private=task.private,
            given=self._given,
            home=self._home,
            device=self._device,
            until=fault.until if fault is not None and kind != "run" else workload.steps.total,
            resume=resume,
            hold=HoldPoint(fault.kill_in) if fault is not None and kind == "fault" else None,
            log=str(self._folder / f"{name}.steps.jsonl"),
        )

    def resumes(self, name: RunName) -> bool:
        """See OwnInputs."""
        task, folder = self._workload.task, start_folder(self._workload.task, self._stretch(run_kind(name)))
        if task.resume_arguments is None or task.checkpoints is None:
            return False
        return self._saved(run_kind(name)) > 0 or any((folder / task.checkpoints.folder).glob("*"))

    def _stretch(self, kind: str) -> Path:
        return self._folder / ("script" if kind == "run" else "fault-script")

    def _saved(self, kind: str) -> int:
        """Steps in the newest checkpoint of a stretch, as far as its attempts' logs say."""
        logs = [log for each in (("run",) if kind == "run" else ("fault", "recovery")) for log in self._folder.glob(f"{each}*.steps.jsonl")]
        try:
            lines = [line for log in logs for line in LogTail(log, key_of_this_process()).new()]
        except ForgedLog as error:
            raise TrialFailed("bad_declaration", str(error)) from error
        return max((line["step"] for line in lines if line["event"] == "checkpoint"), default=0)


def _of_command(provider: Provider, folder: Path) -> tuple[tuple[str, ...], str]:
    """The names of the variables that the provider gives to a command, and the command's home."""
    launcher = provider.launcher
    return tuple(sorted(launcher.given_variables)), "" if launcher.runs_pods else str(folder / "home")


class ContainerInputs:
    """The empty folder in which a container's command starts."""

    of_script = True

    def __init__(self, workload: ContainerWorkload, provider: Provider, folder: Path) -> None:
        self._task, self._folder, self._cpu = workload.task, folder, workload.needs.accelerator == "cpu"
        self._given, self._home = _of_command(provider, folder)
        self.sha256 = digest(workload.task.command)

    @staticmethod
    def start_folder(folder: Path) -> Path:
        """Where the command starts, of a trial whose working folder is `folder`."""
        return folder / "container"

    def spec(self, name: RunName, *, resume: bool) -> ScriptSpec:
        """See OwnInputs."""
        task, place = self._task, self.start_folder(self._folder)
        place.mkdir(exist_ok=True)
        return ScriptSpec(
            command=task.command,
            folder=str(place),
            environment=task.environment,
            report={"format": "reporter"},
            launches_ranks=True,
            private=task.private,
            given=self._given,
            home=self._home,
            stepless=True,
            wanted=COMMAND_OUTPUTS[task.results.format].wanted(task.declared_numbers),
            device="cpu" if self._cpu else "cuda",
            until=1 << 62,
            resume=resume,
            log=str(self._folder / f"{name}.steps.jsonl"),
        )

    def resumes(self, name: RunName) -> bool:
        """See OwnInputs."""
        return False


Inputs = OwnInputs | ScriptInputs | ContainerInputs


def prepare(trial: Trial, folder: Path, cache: Path, device: str, note: Note = lambda _: None) -> Inputs:
    """Prepare this node's inputs. `note` gets the progress. TrialFailed if a script's files or data cannot be had; OSError."""
    workload = trial.workload
    if isinstance(workload, ContainerWorkload):
        return ContainerInputs(workload, trial.provider, folder)
    if isinstance(workload, ScriptWorkload):
        return ScriptInputs(workload, trial.provider, folder, device, note)
    assert isinstance(workload, TrainingWorkload)
    return OwnInputs(workload, folder, cache, device)
