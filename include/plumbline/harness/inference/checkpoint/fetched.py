"""A served checkpoint with its draft model and LoRA adapters: fetched into a cache, identified by manifests, described by its own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from plumbline.declarations import InferenceWorkload, Provider, installation
from plumbline.declarations.compatibility import too_large
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.inference import check_request_lengths
from plumbline.harness.inference.checkpoint.cache import Cached, Credentials, NoSpace, files_of
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Contents, Files, examine
from plumbline.harness.inference.checkpoint.sources import AccessRefused, FetchFailed, LocalFiles
from plumbline.harness.measurement import TrialFailed
from plumbline.results import MetricRow, Scalar, metric_row


@dataclass(frozen=True, kw_only=True)
class FetchedCheckpoint(Cached):
    """The complete files, and what their headers say."""

    contents: Contents

    def rows(self) -> list[MetricRow]:
        """Rows of a cold start only: a warm one downloads nothing."""
        if self.state != "cold":
            return []
        values = {"model_download_time": self.seconds, "model_download_bytes": float(self.downloaded_bytes)}
        if self.seconds > 0 and self.downloaded_bytes:
            values["model_download_bandwidth"] = self.downloaded_bytes / self.seconds
        return [metric_row(name, value, 1, phase="cold_start") for name, value in values.items()]

    def facts(self, field: str = "model") -> dict[str, Scalar]:
        about = self.contents
        return {
            **super().facts(field),
            f"{field}.files": len(self.manifest.files),
            f"{field}.format": about.format,
            f"{field}.architecture": ", ".join(about.architectures) or None,
            f"{field}.parameters": about.parameters,
            f"{field}.active_parameters": about.active_parameters,
            f"{field}.precision": about.precision,
            f"{field}.vocabulary": about.vocabulary,
            f"{field}.context": about.context,
            f"{field}.chat_template": about.has_chat_template,
        }


def fetch(
    model: Checkpoint,
    cache: Path,
    mirror: str | None = None,
    credentials: Credentials = (None, None),
    note: Callable[[str], None] = lambda _: None,
    check: Callable[[Contents], object] = lambda _: None,
) -> FetchedCheckpoint:
    """The checkpoint as a folder of this machine. `cache`: where downloads stay; `mirror`: `models_url`; `note` gets the progress.
    `credentials`: see `take_models_credentials`. `check` may raise what is wrong with the contents, which
    are read from the headers before anything is downloaded.

    Raises BrokenCheckpoint, AccessRefused, FetchFailed, NoSpace."""
    entry = files_of(model, cache, mirror, credentials, note, lambda files: check(examine(files)))
    return FetchedCheckpoint(**vars(entry), contents=examine(LocalFiles(entry.folder)))


def resolve(workload: InferenceWorkload, contents: Contents) -> InferenceWorkload:
    """The workload with what the files say in place of what its declaration leaves open; ValueError, with the field, if they contradict it."""
    model = workload.model
    if not isinstance(model, Checkpoint):
        return workload
    if not contents.has_tokenizer:
        raise ValueError("the checkpoint has no tokenizer; expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt")
    for name in ("context", "vocabulary"):
        declared, limit = getattr(model, name), getattr(contents, name)
        if declared is not None and limit is not None and declared > limit:
            raise ValueError(f"model.{name} {declared} is above {limit}, the limit in config.json; expected at most that")
    quantised_to = contents.quantised_to
    if quantised_to is not None and quantised_to != model.precision:
        raise ValueError(
            f"model.precision {model.precision}, but the checkpoint is quantised to {quantised_to} (config.json); expected {quantised_to}"
        )
    if quantised_to is not None and workload.quality is not None and isinstance(workload.quality.reference, str):
        raise ValueError(
            f"quality.reference {workload.quality.reference} of files that are quantised to {quantised_to}; expected a checkpoint of its own"
        )
    known = {
        "context": model.context or contents.context,
        "vocabulary": model.vocabulary or contents.vocabulary,
        "parameters": contents.parameters,
        "active_parameters": contents.active_parameters,
        "weights_bytes": contents.weights_bytes,
        "kv_cache_bytes_per_token": contents.kv_cache_bytes_per_token,
    }
    resolved = workload.model_copy(update={"model": model.model_copy(update=known)})
    check_request_lengths(resolved.requests, resolved.phases, resolved.model, own_tokenizer=True)
    return resolved


def fetch_for_trial(
    workload: InferenceWorkload,
    provider: Provider | None,
    cache: Path,
    mirror: str | None,
    credentials: Credentials,
    note: Callable[[str], None],
) -> tuple[FetchedCheckpoint, InferenceWorkload]:
    """Fetch a workload's checkpoint and resolve the workload. Raises TrialFailed:
    bad_declaration        broken files, another manifest, no access, too large for the provider, or requests that the model cannot serve
    unreachable            the source does not answer
    quota_exceeded         the cache's disk is too small"""
    assert isinstance(workload.model, Checkpoint)

    def check(contents: Contents) -> None:
        resolved = resolve(workload, contents)
        if provider is not None and (why := too_large(resolved, provider)) is not None:
            raise ValueError(why)

    with failures_of("model"):
        fetched = fetch(workload.model, cache, mirror, credentials, note, check)
        return fetched, resolve(workload, fetched.contents)


@contextmanager
def failures_of(field: str) -> Iterator[None]:
    """Raise errors of fetching as TrialFailed with the declared field; see `fetch_for_trial`."""
    try:
        yield
    except FetchFailed as error:
        raise TrialFailed("unreachable", f"{field}: {error}") from error
    except (BrokenCheckpoint, AccessRefused, ValueError) as error:
        raise TrialFailed("bad_declaration", f"{field}: {error}") from error
    except OSError as error:
        if (full := installation.full_disk_message(error)) is None and not isinstance(error, NoSpace):
            raise
        raise TrialFailed("quota_exceeded", f"{field}: {full or error}") from error


_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")


def fetch_companions(
    workload: InferenceWorkload, cache: Path, mirror: str | None, credentials: Credentials, note: Callable[[str], None]
) -> tuple[InferenceWorkload, dict[str, Cached]]:
    """The workload with folders in place of the sources of its drafts and adapters, and these by field. TrialFailed as of `fetch_for_trial`,
    with the field, such as server.adapters.legal."""
    companions: dict[str, Cached] = {}
    for field, files in workload.server.fetched_files.items():
        with failures_of(f"server.{field}"):
            companions[field] = files_of(files, cache, mirror, credentials, note, _checker(field, workload))
    return _with_folders(workload, {field: str(each.folder) for field, each in companions.items()}), companions


def _checker(field: str, workload: InferenceWorkload) -> Callable[[Files], None]:
    if field != "speculative":
        return _check_adapter
    speculative, vocabulary = workload.server.speculative, workload.model.vocabulary
    same = speculative is not None and speculative.method == "draft_model"

    def check_draft(files: Files) -> None:
        own = examine(files).vocabulary
        if same and None not in (own, vocabulary) and own != vocabulary:
            raise BrokenCheckpoint(f"the draft model has a vocabulary of {own}, the model one of {vocabulary}; expected the same")

    return check_draft


def _check_adapter(files: Files) -> None:
    if missing := [name for name in _ADAPTER if name not in files.sizes()]:
        raise BrokenCheckpoint(f"{missing[0]} is missing; expected a LoRA adapter: {' and '.join(_ADAPTER)}")
    try:
        rank = from_json(files.read(_ADAPTER[0])).get("r")
    except (ValueError, AttributeError) as error:
        raise BrokenCheckpoint(f"{_ADAPTER[0]} is not a JSON object ({error}); expected the configuration of a LoRA adapter") from None
    if not isinstance(rank, int) or rank < 1:
        raise BrokenCheckpoint(f"{_ADAPTER[0]} has the rank {rank}; expected r, a number of at least 1")


def _with_folders(workload: InferenceWorkload, folders: Mapping[str, str]) -> InferenceWorkload:
    if not folders:
        return workload
    server = workload.server
    update: dict[str, object] = {}
    if "speculative" in folders and server.speculative is not None:
        update["speculative"] = server.speculative.model_copy(update={"model": folders["speculative"]})
    if server.adapters is not None:
        update["adapters"] = {name: folders.get(f"adapters.{name}", files) for name, files in server.adapters.items()}
    return workload.model_copy(update={"server": server.model_copy(update=update)})
