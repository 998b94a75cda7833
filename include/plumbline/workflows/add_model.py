"""Declare a workload that serves a checkpoint: look at its files, fetch and hash them, and fill in the model of an existing workload."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plumbline.declarations import Declarations, InferenceWorkload, Provider, installation_paths
from plumbline.declarations.compatibility import ModelFit, incompatibility, model_fit
from plumbline.declarations.loader import load_file
from plumbline.declarations.urls import url_problem
from plumbline.declarations.workloads.checkpoints import UNQUANTISED, Checkpoint, FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.declarations.workloads.engines import ENGINES
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Contents, Files, Manifest, ManifestFile, examine
from plumbline.harness.inference.checkpoint.fetched import FetchedCheckpoint, fetch, resolve
from plumbline.harness.inference.checkpoint.sources import HubSource, LocalFiles, Source, source_of
from plumbline.metrics.formatting import unknown_name

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SMALL = 64 << 20
_DEFAULT_TEMPLATE = "chat-8b-1gpu"


@dataclass(frozen=True)
class ModelSource:
    """A checkpoint as the command names it. `mirror`: as `models_url`."""

    model: Checkpoint
    mirror: str | None = None
    token: str | None = None

    @property
    def remote(self) -> Source | None:
        """None for a folder."""
        return None if isinstance(self.model, FolderCheckpoint) else source_of(self.model, self.mirror, self.token)


def find_source(name: str, revision: str | None, mirror: str | None, token: str | None) -> ModelSource:
    """A hub id, a URL or a folder. A branch or tag becomes its commit. ValueError; AccessRefused or FetchFailed of the hub."""
    for given in (name, mirror or ""):
        if problem := url_problem(given):
            raise ValueError(f"the address {problem}; expected one such as s3://bucket/models/chat-8b")
    if "://" in name or Path(name).expanduser().is_dir():
        if revision is not None:
            raise ValueError(f"--revision {revision} of {name}; expected it with a model of the hub only")
        if "://" in name:
            return ModelSource(UrlCheckpoint(source="url", url=name), mirror, token)
        return ModelSource(FolderCheckpoint(source="folder", path=str(Path(name).expanduser().resolve())), mirror, token)
    if not _HUB_ID.fullmatch(name):
        raise ValueError(f"{name} is no folder here, no URL and no owner/name of the hub; expected one of them")
    if mirror is not None and not mirror.startswith(("http://", "https://")) and not _COMMIT.fullmatch(revision or ""):
        raise ValueError(f"{mirror} is a store, which knows no branches; expected --revision with the commit")
    commit = revision if revision and _COMMIT.fullmatch(revision) else HubSource(name, revision, mirror, token).commit()
    return ModelSource(HubCheckpoint(source="hub", id=name, revision=commit), mirror, token)


def look_at(source: ModelSource) -> Contents:
    """Configuration and headers alone. BrokenCheckpoint; AccessRefused or FetchFailed of the source."""
    files: Files = LocalFiles(Path(source.model.path)) if isinstance(source.model, FolderCheckpoint) else _remote(source)
    contents = examine(files)
    if not contents.has_tokenizer:
        raise BrokenCheckpoint("the checkpoint has no tokenizer; expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt")
    return contents


def _remote(source: ModelSource) -> Source:
    remote = source.remote
    assert remote is not None
    return remote


def listed_manifest(source: ModelSource) -> Manifest | None:
    """The manifest without fetching weights: the hub lists their SHA-256. None where the source does not."""
    remote = source.remote
    if remote is None:
        return None
    sizes, known = remote.sizes(), remote.hashes()
    if any(size > _SMALL for name, size in sizes.items() if name not in known):
        return None
    return Manifest(
        tuple(ManifestFile(name, sizes[name], known.get(name) or hashlib.sha256(remote.read(name)).hexdigest()) for name in sorted(sizes))
    )


def fetch_here(source: ModelSource, note: Callable[[str], None]) -> FetchedCheckpoint:
    """Into the installation's cache, where local trials find it."""
    return fetch(source.model, installation_paths().cache / "models", source.mirror, (source.token, None), note)


@dataclass(frozen=True)
class ProviderFit:
    """Whether a provider can serve the model. `count`: the fewest accelerators that hold it; `why`: what else is against it."""

    provider: str
    enabled: bool
    fit: ModelFit | None
    count: int | None
    why: str | None


def provider_fits(workload: InferenceWorkload, declared: Declarations) -> Iterator[ProviderFit]:
    """Fits of every declared provider that starts servers, by name."""
    for name, provider in sorted(declared.providers.items()):
        if not provider.launcher.hosted:
            yield ProviderFit(
                name, provider.enabled, model_fit(workload, provider), _fewest(workload, provider), incompatibility(workload, provider)
            )


def _fewest(workload: InferenceWorkload, provider: Provider) -> int | None:
    """A power of two, as tensors are split; None if all of the provider's are too few, or the size is unknown."""
    for count in (1 << power for power in range(provider.accelerator.count.bit_length())):
        needs = workload.needs.model_copy(update={"count": count})
        fit = model_fit(workload.model_copy(update={"needs": needs}), provider)
        if fit is not None and fit.fits:
            return count
    return None


def template_of(declared: Declarations, like: str | None) -> InferenceWorkload:
    """The workload whose load, limits and repeats the new one gets. ValueError."""
    known = declared.inference_workloads
    if like is None and _DEFAULT_TEMPLATE not in known:
        raise ValueError(f"no workload is called {_DEFAULT_TEMPLATE}; expected --like with one of {', '.join(sorted(known))}")
    template = known.get(like or _DEFAULT_TEMPLATE)
    if template is None:
        raise ValueError(unknown_name("inference workload", str(like), known))
    return template


def default_name(source: ModelSource) -> str:
    """A name from the last part of id, URL or path."""
    model = source.model
    where = model.id if isinstance(model, HubCheckpoint) else model.url if isinstance(model, UrlCheckpoint) else model.path
    return re.sub(r"[^a-z0-9]+", "-", where.rstrip("/").rpartition("/")[2].lower()).strip("-")[:63].rstrip("-")


def model_section(
    source: ModelSource,
    contents: Contents,
    manifest: Manifest | None,
    template: InferenceWorkload,
    precision: str | None,
    context: int | None,
) -> dict[str, Any]:
    """The declaration's `model`. The context is the template's, whose requests fit into it, where the checkpoint has a longer one."""
    limits = [limit for limit in (contents.context, template.model.context) if limit is not None]
    fields = {
        **source.model.model_dump(mode="json", include={"source", "id", "revision", "url", "path"}),
        "manifest": None if manifest is None else manifest.sha256,
        "context": context or min(limits, default=None),
        "vocabulary": contents.vocabulary,
        "parameters": contents.parameters,
        "active_parameters": None if contents.active_parameters == contents.parameters else contents.active_parameters,
        "weights_bytes": contents.weights_bytes,
        "kv_cache_bytes_per_token": contents.kv_cache_bytes_per_token,
        "precision": precision or contents.precision or "bf16",
    }
    return {name: value for name, value in fields.items() if value is not None}


def declaration(template_file: Path, template: InferenceWorkload, name: str, model: dict[str, Any], quantised_to: str | None = None) -> str:
    """The template's YAML with another name and model, version 1, on demand only: it costs nothing until it is asked for. With a `quality`
    where the precision needs one, whose reference is the template's checkpoint if the files themselves are quantised.

    ValueError if quantised files (`quantised_to`) have no reference."""
    text = template_file.read_text(encoding="utf-8")
    described = f"{template.name}'s load on {model.get('id') or model.get('url') or model.get('path')}"
    values: dict[str, Any] = {"name": name, "version": 1, "description": described, "model": model, "on_demand_only": True}
    if "checkpoint" not in ENGINES[template.server.backend].architectures if template.server.backend in ENGINES else False:
        values["server"] = template.server.model_dump(mode="json", exclude_defaults=True) | {"backend": "vllm"}
    if model["precision"] not in UNQUANTISED and template.quality is None:
        values["quality"] = {"reference": "bf16" if quantised_to is None else _reference(template, quantised_to), "agreement": "90%"}
    if template.model.precision not in UNQUANTISED and model["precision"] in UNQUANTISED:
        values["quality"] = None
    return _replace(text, values)


def _reference(template: InferenceWorkload, quantised_to: str) -> dict[str, Any]:
    """The template's checkpoint, by which quantised files are compared."""
    model = template.model
    if not isinstance(model, Checkpoint) or model.precision not in UNQUANTISED:
        raise ValueError(
            f"the files are quantised to {quantised_to}, and their outputs need a reference; expected --like a workload that serves the same "
            "model in bf16 or fp16, such as one of plumbline model add"
        )
    return model.model_dump(mode="json", exclude_none=True, include={"source", "id", "revision", "url", "path", "manifest", "precision"})


def _replace(text: str, values: dict[str, Any]) -> str:
    """Top-level keys with other values, comments and all other lines as they are; None removes a key, a new key comes last. What is before
    the first key is about the template and goes."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    lines = text.splitlines(keepends=True)
    starts = [key.start_mark.line for key, _ in root.value]
    missing = dict(values)
    parts = []
    for (key, node), start in zip(root.value, starts, strict=True):
        end = node.end_mark.line + (node.end_mark.column > 0)
        after = "".join(lines[end : min((s for s in starts if s > start), default=len(lines))])
        if key.value in missing:
            value = missing.pop(key.value)
            parts.append("" if value is None else _block(key.value, value))
        else:
            parts.append("".join(lines[start:end]))
        parts.append(after)
    return "".join([*parts, *(_block(name, value) for name, value in missing.items() if value is not None)])


def _block(name: str, value: Any) -> str:
    return str(yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=140))


def write_declaration(folder: Path, name: str, text: str, contents: Contents, *, replace: bool) -> Path:
    """`<folder>/workloads/inference/<name>.yaml`. ValueError if it exists, or if the model cannot serve the template's requests;
    DeclarationError if the file is not a workload. Nothing is left of a refused one."""
    path = folder / "workloads" / "inference" / f"{name}.yaml"
    if path.exists() and not replace:
        raise ValueError(f"{path} exists; expected another --name, or --replace")
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    try:
        resolve(load_file(path, InferenceWorkload, folder), contents)
    except ValueError:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
        raise
    return path
