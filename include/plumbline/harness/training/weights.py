"""Weights that training starts from and does not draw: made or fetched once a node, before any process of the trial starts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations.architectures import HubModel
from plumbline.harness import engine_python, image_faults
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset.generated import sha256_of

if TYPE_CHECKING:
    from plumbline.declarations.training import TrainingWorkload

GENERATOR = 1
"""Raised when the same seed would give other weights."""
_WANTED = ("*.json", "*.safetensors")
_SHOWN_LINES = 6


def prepare(workload: TrainingWorkload, cache: Path) -> Path | None:
    """Where the workload's initial weights lie: a file below `cache`, or a folder of the hub's cache; None if each process draws its own.

    A file that is there is used again if its checksum still holds. TrialFailed if they cannot be had.
    """
    model, task = workload.model, workload.task
    if isinstance(model, HubModel):
        return fetched(model)
    if task.kind == "lora" or (task.kind == "language_model" and task.initial == "stored"):
        return _written(json.dumps(model.model_dump(mode="json"), sort_keys=True), cache / "training-weights")
    return None


def _written(shape: str, folder: Path) -> Path:
    file = folder / f"{hashlib.sha256(f'{GENERATOR} {shape}'.encode()).hexdigest()[:24]}.safetensors"
    sums = file.with_suffix(".sha256")
    if file.is_file() and sums.is_file() and sha256_of(file) == sums.read_text().strip():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    draft, told = (file.with_name(f"{file.name}.{os.getpid()}.{kind}") for kind in ("part", "json"))
    try:
        told.write_text(shape)
        done = subprocess.run(
            [engine_python.executable(), "-m", "plumbline.harness.training.models.stored", str(told), str(draft)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=engine_python.environment(),
            check=False,
        )
        if done.returncode:
            said = "\n".join(done.stderr.strip().splitlines()[-_SHOWN_LINES:])
            raise TrialFailed(
                "image_error" if image_faults.sign(said) else "harness_error",
                f"the initial weights could not be written to {folder} (exit code {done.returncode}): {said}",
            )
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        summed = sha256_of(draft)
        draft.replace(file)
        draft.write_text(summed)
        draft.replace(sums)
    finally:
        told.unlink(missing_ok=True)
        draft.unlink(missing_ok=True)
    return file


def fetched(model: HubModel) -> Path:
    """The folder of a hub model's configuration and weights: from the hub's cache on this machine, else from the hub.

    TrialFailed: bad_declaration if the hub shows no such model or it is of another kind, harness_error if it cannot be fetched.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    name = f"model.id {model.id} at revision {model.revision}"
    try:
        folder = Path(snapshot_download(model.id, revision=model.revision, allow_patterns=list(_WANTED)))
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        detail = f"{name}: the hub shows none ({error}); expected a public model, or HF_TOKEN of somebody who may read it"
        raise TrialFailed("bad_declaration", detail) from error
    except (OSError, ValueError) as error:
        where = os.environ.get("HF_HOME", "~/.cache/huggingface")
        detail = f"{name} cannot be fetched: {error}; expected a network, or the model in the cache below {where}"
        raise TrialFailed("harness_error", detail) from error
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise TrialFailed(
            "bad_declaration", f"{name} has no config.json or no safetensors; expected a causal LM of transformers in that format"
        )
    return folder


def vocabulary(folder: Path) -> int:
    """Token ids that a fetched model knows. TrialFailed if its configuration does not say."""
    size = json.loads((folder / "config.json").read_text()).get("vocab_size")
    if not isinstance(size, int):
        raise TrialFailed("bad_declaration", f"model.id: {folder / 'config.json'} has no vocab_size; expected a causal LM")
    return size
