"""Models by their checkpoint: configuration, weights, tokenizer and chat template in Hugging Face's layout."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.models import Encoder, Llama, ServedGpt, ServingPrecision
from plumbline.declarations.workloads.workload import Seed

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Checkpoint(Declared):
    """`manifest`, `vocabulary`, `parameters`, `active_parameters`, `weights_bytes` and `kv_cache_bytes_per_token` describe the files;
    `plumbline model add` writes them. What is omitted is read from the files when a trial has fetched them."""

    manifest: Sha256 | None = Field(None, description="SHA-256 of the manifest; a trial refuses a checkpoint that has another one")
    context: int | None = Field(None, ge=8, le=16_777_216, description="longest sequence, in tokens; the checkpoint's own limit if omitted")
    vocabulary: int | None = Field(None, ge=16, le=10_000_000)
    parameters: int | None = Field(None, ge=1, description="weights, of all experts")
    active_parameters: int | None = Field(
        None, ge=1, description="weights that one token passes through: of a mixture of experts less than all"
    )
    weights_bytes: int | None = Field(None, ge=1)
    kv_cache_bytes_per_token: int | None = Field(None, ge=0, description="of all layers, at the cache's own precision")
    precision: ServingPrecision = Field("bf16", description="of the weights as they are served")
    seed: Seed = Field(7, description="of the engine's sampling; the weights are the checkpoint's")

    @property
    def architecture(self) -> Literal["checkpoint"]:
        """The architecture by which engines are chosen; the checkpoint's config.json has the real one."""
        return "checkpoint"


class HubCheckpoint(_Checkpoint):
    """A checkpoint of the Hugging Face hub, or of a mirror of it (`models_url`)."""

    source: Literal["hub"]
    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner/name")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="the commit: a branch moves, and a series must not")


class UrlCheckpoint(_Checkpoint):
    """A checkpoint in a folder of any file system that fsspec knows: s3://, gs://, az://, https:// …"""

    source: Literal["url"]
    url: Annotated[DeclaredUrl, AfterValidator(lambda url: url.rstrip("/"))] = Field(
        pattern=r"^[a-z][a-z0-9+.-]*://[^\s?#]+$", description="without user, password or query, since every result has it"
    )


class FolderCheckpoint(_Checkpoint):
    """A checkpoint in a folder of the machine (or of a volume of the pod) that runs the trial."""

    source: Literal["folder"]
    path: str

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise ValueError(f"{value} is relative; expected an absolute path, such as /models/my-model")
        return value


Checkpoint: TypeAlias = HubCheckpoint | UrlCheckpoint | FolderCheckpoint

UNQUANTISED: tuple[ServingPrecision, ...] = ("fp32", "bf16", "fp16")
"""Precisions in which checkpoints are published before anyone quantises them: serving in one of them needs no proof of quality."""
QUANTISED: tuple[ServingPrecision, ...] = ("fp8", "int8", "int4")
DESCRIPTIVE = frozenset({"parameters", "active_parameters", "weights_bytes", "kv_cache_bytes_per_token"})
"""Fields that follow from the files and change no measurement: no hash has them."""


def _kind_of(model: object) -> str:
    return "checkpoint" if isinstance(model, _Checkpoint) or (isinstance(model, dict) and "source" in model) else "shape"


def _names_a_kind(model: Any) -> Any:
    if isinstance(model, dict) and not {"architecture", "source"} & model.keys():
        raise ValueError("has neither architecture nor source; expected architecture: gpt, llama or encoder, or source: hub, url or folder")
    return model


ModelFiles = Annotated[
    Annotated[str, Field(min_length=1), Tag("path")]
    | Annotated[HubCheckpoint | UrlCheckpoint | FolderCheckpoint, Field(discriminator="source"), Tag("checkpoint")],
    Discriminator(lambda files: "path" if isinstance(files, str) else "checkpoint"),
]
"""Files beside the model: a path that the engine reads as it is, or a source that is fetched and identified as the model's checkpoint is."""

ServedModel = Annotated[
    Annotated[ServedGpt | Llama | Encoder, Field(discriminator="architecture"), Tag("shape")]
    | Annotated[HubCheckpoint | UrlCheckpoint | FolderCheckpoint, Field(discriminator="source"), Tag("checkpoint")],
    Discriminator(_kind_of),
    BeforeValidator(_names_a_kind),
]
"""The served model: a shape with random weights, or a checkpoint."""
