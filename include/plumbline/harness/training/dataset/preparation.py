"""Prepare data and initial weights once a node, before any worker starts: generate, fetch, verify. TrialFailed says whose fault it is."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from plumbline.declarations.addresses import local_path, open_filesystem
from plumbline.declarations.workloads.models import HubModel, VitShape
from plumbline.harness import engine_python, image_requirements
from plumbline.harness.environment.cpu import allotted_cores
from plumbline.harness.hub_session import guard_hub_session
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset import DataFile, cached_file, synthetic
from plumbline.whole_file import sha256_file, whole_file

if TYPE_CHECKING:
    from plumbline.declarations.workloads.training import TokenFileData, TrainingWorkload


_READ_BYTES = 1 << 22


def prepare_inputs(workload: TrainingWorkload, cache: Path) -> DataFile:
    """Data and weights for a workload, below `cache`: reused while the checksum holds, else generated or fetched.

    OSError if it cannot be written, TrialFailed if a team's own file or a model of the hub is unusable."""
    initial = prepare_weights(workload, cache)
    return replace(_prepare_data(workload, cache, initial), weights=initial)


def _prepare_data(workload: TrainingWorkload, cache: Path, initial: Path | None) -> DataFile:
    data, model = workload.data, workload.model
    if isinstance(model, VitShape):
        if data.source != "images":
            raise TypeError(f"data.source {data.source} for a model of images; the declaration refuses it")
        shape = {"classes": model.classes, "edge": model.image, "images": data.images}
        return synthetic.generate_images(cache, **shape, seed=data.seed, threads=allotted_cores())
    if isinstance(model, HubModel):
        assert initial is not None
        ids = vocabulary_size(initial)
    else:
        ids = model.vocabulary
    if data.source == "file":
        return declared_token_file(cache, data, vocabulary=ids)
    if data.source == "images":
        raise TypeError("data.source images for a model of texts; the declaration refuses it")
    return synthetic.generate_tokens(cache, vocabulary=ids, tokens=data.tokens, seed=data.seed)


def declared_token_file(cache: Path, data: TokenFileData, *, vocabulary: int) -> DataFile:
    """The file, if it is the one that was declared and a model of this vocabulary can read it.

    A path is read where it is; a URL is fetched below `cache`, unless it is there. TrialFailed: bad_declaration if the file is another
    one than declared, harness_error if it cannot be read here.
    """
    dtype = f"<u{data.width}"
    if "://" in data.url and local_path(data.url) is None:
        path = cache / "training-data" / f"{data.sha256}.tokens"
        if not path.is_file() or sha256_file(path) != data.sha256:
            _download(data, path)
    else:
        path = Path(data.url) if "://" not in data.url else Path(open_filesystem(data.url)[1])
    try:
        with path.open("rb") as file:
            _verify_tokens(data, file, path, vocabulary)
    except FileNotFoundError as error:
        raise TrialFailed(
            "bad_declaration", f"data.url {data.url}: there is no such file here; expected one that every node can read"
        ) from error
    except OSError as error:
        raise TrialFailed("harness_error", f"data.url {data.url} cannot be read: {error.strerror or error}") from error
    return DataFile(path, dtype, data.tokens, data.sha256)


def _verify_tokens(data: TokenFileData, file: BinaryIO, path: Path, vocabulary: int) -> None:
    size, expected = os.fstat(file.fileno()).st_size, data.tokens * data.width
    if size != expected:
        raise TrialFailed(
            "bad_declaration",
            f"data.url {data.url} has {size} bytes; expected data.tokens × data.width = {data.tokens} × {data.width} = {expected}",
        )
    summed, at, count = hashlib.sha256(), 0, 0
    beyond: tuple[int, int] | None = None
    while piece := file.read(_READ_BYTES):
        summed.update(piece)
        ids = np.frombuffer(piece, dtype=f"<u{data.width}")
        count = max(count, int(ids.max()))
        if count >= vocabulary and beyond is None:
            first = int(np.argmax(ids >= vocabulary))
            beyond = (at + first, int(ids[first]))
        at += ids.size
    if summed.hexdigest() != data.sha256:
        raise TrialFailed(
            "bad_declaration",
            f"data.sha256 is {data.sha256}, but {path} has {summed.hexdigest()}; expected the file that the series began with, or a new version of the workload",
        )
    if beyond is not None:
        raise TrialFailed(
            "bad_declaration",
            f"data.url {data.url}: token {beyond[0]} is {beyond[1]}; expected ids below the model's vocabulary {vocabulary}, {data.width} bytes each",
        )


def _download(data: TokenFileData, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    expected = data.tokens * data.width
    with whole_file(path, durable=True) as draft:
        with draft.open("wb") as file:
            # Whatever a filesystem of fsspec raises (each has exceptions of its own) means that the file cannot be had.
            try:
                files, name = open_filesystem(data.url)
                with files.open(name, "rb") as remote:
                    while file.tell() <= expected and (piece := cast(bytes, remote.read(_READ_BYTES))):
                        file.write(piece)
            except FileNotFoundError as error:
                raise TrialFailed("bad_declaration", f"data.url {data.url}: there is no such file") from error
            except Exception as error:
                raise TrialFailed(
                    "harness_error",
                    f"data.url {data.url} cannot be fetched: {type(error).__name__}: {error}; "
                    "expected a URL of fsspec that this node may read, and the package of its protocol",
                ) from error
        if (size := draft.stat().st_size) != expected:
            more = " or more" if size > expected else ""
            raise TrialFailed(
                "bad_declaration",
                f"data.url {data.url} has {size} bytes{more}; expected data.tokens × data.width = {data.tokens} × {data.width} = {expected}",
            )


WEIGHTS_VERSION = 2
"""Raised when the same seed would give other weights."""
_HUB_FILES = ("*.json", "*.safetensors")
_SHOWN_LINES = 6


def prepare_weights(workload: TrainingWorkload, cache: Path) -> Path | None:
    """Where the workload's initial weights lie: a file below `cache`, or a folder of the hub's cache; None if each process draws its own.

    A file that is there is used again if its checksum still holds. TrialFailed if they cannot be had.
    """
    model, task = workload.model, workload.task
    if isinstance(model, HubModel):
        return fetch_hub_model(model)
    if task.kind == "lora" or (task.kind == "language_model" and task.initial == "stored"):
        shape = json.dumps(model.model_dump(mode="json"), sort_keys=True)
        write = partial(_draw_weights, shape)
        return cached_file(cache / "training-weights", f"{WEIGHTS_VERSION} {shape}", ".safetensors", write)[0]
    return None


def _draw_weights(shape: str, file: Path) -> None:
    with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".json") as declared:
        declared.write(shape)
        declared.flush()
        done = engine_python.run("-m", "plumbline.harness.training.models", declared.name, str(file))
    if done.returncode:
        errors = "\n".join(done.stderr.strip().splitlines()[-_SHOWN_LINES:])
        raise TrialFailed(
            "image_error" if image_requirements.find_image_fault(errors) else "harness_error",
            f"the initial weights could not be written to {file.parent} (exit code {done.returncode}): {errors}",
        )


def fetch_hub_model(model: HubModel) -> Path:
    """The folder of a hub model's configuration and weights: from the hub's cache on this machine, else from the hub.

    TrialFailed: bad_declaration if the hub shows no such model or it is of another kind, harness_error if it cannot be fetched.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    name = f"model.id {model.id} at revision {model.revision}"
    guard_hub_session()
    try:
        folder = Path(snapshot_download(model.id, revision=model.revision, allow_patterns=list(_HUB_FILES)))
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        detail = f"{name}: the hub shows no such model ({error}); expected a public model, or HF_TOKEN with read access"
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


def vocabulary_size(folder: Path) -> int:
    """Token ids that a fetched model knows. TrialFailed if its configuration does not say."""
    size = json.loads((folder / "config.json").read_text()).get("vocab_size")
    if not isinstance(size, int):
        raise TrialFailed("bad_declaration", f"model.id: {folder / 'config.json'} has no vocab_size; expected a causal LM")
    return size
