"""A trial's specification, its hashes and series key, and the differences between two specifications."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from plumbline.declarations.base import Declared, archived
from plumbline.declarations.providers.provider import Provider
from plumbline.declarations.purposes import Purpose, purpose_of
from plumbline.declarations.thresholds import ValidityLimits
from plumbline.declarations.workloads.any_workload import ADDED_KINDS, AnyWorkload, TaggedWorkload
from plumbline.declarations.workloads.checkpoints import DESCRIPTIVE

HARNESS_PROTOCOL = {"training": 6, "inference": 7}
"""Version of the measurement by kind. A change that makes new numbers incomparable with old ones raises it, which starts new series."""

_UNSAFE_IN_ID = re.compile(r"[^a-z0-9.-]+")


class Origin(Declared):
    """The Airflow run that requested the trial; absent for one from the command line."""

    dag_id: str
    run_id: str
    bundle_version: str | None = None


class Trial(Declared):
    """One execution of one workload on one provider, in one slot. `python -m plumbline.harness run --trial` reads it as JSON."""

    schema_version: Literal[1] = 1
    trial_id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,250}$")
    campaign_id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$", description="such as 2026-11 for a monthly rerun")
    reason: str = Field(min_length=1)
    planned_at: AwareDatetime
    provider: Annotated[Provider, archived(Provider)]
    workload: Annotated[TaggedWorkload, ADDED_KINDS.serializer, archived(TaggedWorkload), ADDED_KINDS.validator]
    validity: ValidityLimits
    slot: str
    repeat: int = Field(ge=1)
    attempt: int = Field(1, ge=1)
    series_key: str
    spec_hash: str
    criteria_hash: str
    schedule_hash: str | None = Field(None, description="of the arrival schedule of an inference trial")
    placement: Literal["any", "fresh_node", "each_node"] = Field(
        "any", description="fresh_node: on none of avoid_nodes, so that its image is pulled; each_node: on on_nodes only"
    )
    avoid_nodes: tuple[str, ...] = Field((), description="nodes of earlier trials of the series; used with fresh_node")
    on_nodes: tuple[str, ...] = Field((), description="the nodes that it runs on; used with each_node")
    selfcheck: bool = Field(
        False, description="the harness checks itself before it measures; set for a plan's first trial on each provider"
    )
    replay_of: str | None = Field(None, description="id of the recorded trial that this one repeats")
    origin: Origin | None = None

    @property
    def purpose(self) -> Purpose:
        """What its campaign is for, by the first of its trials that is recorded."""
        return purpose_of(self.campaign_id, self.placement)

    @property
    def hosted(self) -> bool:
        """Whether its server runs elsewhere, so that only the client is seen here."""
        return self.workload.served_elsewhere

    @model_validator(mode="after")
    def _hashes_hold(self) -> Trial:
        for field, value in (("spec_hash", spec_hash(self.workload)), ("criteria_hash", criteria_hash(self.workload, self.validity))):
            if getattr(self, field) != value:
                raise ValueError(
                    f"{field} is {getattr(self, field)} but the content hashes to {value}; a trial is never changed after it was planned"
                )
        return self


def canonical(data: Any) -> bytes:
    """Data as canonical JSON: sorted keys, no spaces, UTF-8."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(data: Any) -> str:
    """SHA-256 (hex) of data as canonical JSON."""
    return hashlib.sha256(canonical(data)).hexdigest()


def without_defaults(trial: Trial) -> dict[str, Any]:
    """The model as JSON values without defaults, for an older harness, which refuses unknown keys.

    A task's kind stays, default or not: without it nobody can tell which task the rest is of.
    """
    data = trial.model_dump(mode="json", exclude_defaults=True)
    if "task" in data["workload"]:
        data["workload"]["task"]["kind"] = trial.workload.task_kind
    return data


_CRITERIA_FIELDS = {"acceptance", "drift", "slo", "loss"}
_OUTSIDE_FIELDS = {"description", "repeats", "providers", "needs", "on_demand_only", "months", "primary"}
# The limit does not change what a trial measures, so it must not start a new series.
_LIMITS: dict[str, Any] = {"server": {"ready_timeout"}}
# `selection` is the prompts' hash, `sha256` that of a script's files; how they are compressed differs between machines, and privacy changes nothing.
_DERIVED: dict[str, Any] = {
    "requests": {"prompts": {"content", "expected_tokens", "private"}},
    "model": set(DESCRIPTIVE),
    "task": {"files": {"content"}, "private": True, "data": {"size"}},
}
_NOT_MEASURED: dict[str, Any] = {**dict.fromkeys(_CRITERIA_FIELDS | _OUTSIDE_FIELDS, True), **_LIMITS, **_DERIVED}


def spec_hash(workload: AnyWorkload) -> str:
    """Hash of what is measured: the workload without criteria, repeats and descriptions.

    Fields at their default are left out, so that a field added later changes no recorded hash. A changed default does, rightly.
    """
    return digest(workload.model_dump(mode="json", exclude=_NOT_MEASURED, exclude_defaults=True))


def specification(workload: AnyWorkload) -> dict[str, Any]:
    """The specification with all defaults, for a comparison by field. `spec_hash` omits defaults."""
    return workload.model_dump(mode="json", exclude=_NOT_MEASURED)


def requested_specification(trial: Trial) -> dict[str, Any]:
    """The specification as requested of the provider; of an endpoint also whether its outputs have the requested length."""
    spec = specification(trial.workload)
    trial.provider.launcher.extend_specification(spec)
    return spec


def criteria_hash(workload: AnyWorkload, validity: ValidityLimits) -> str:
    """Hash of the criteria of a result, fixed before the trial runs, without defaults."""
    criteria = workload.model_dump(mode="json", include=_CRITERIA_FIELDS, exclude_defaults=True)
    return digest({"criteria": criteria, "validity": validity.model_dump(mode="json", exclude_defaults=True)})


def series_key(workload: AnyWorkload, provider: Provider) -> str:
    """Key of a trial's series, without driver and image: an upgrade shows as drift within the series."""
    parts = (
        workload.kind,
        f"{workload.name}@{workload.version}",
        f"h{HARNESS_PROTOCOL[workload.kind]}",
        workload.engine_name,
        provider.name,
        provider.region,
        provider.instance_type,
    )
    return "/".join(parts)


def trial_id(campaign_id: str, provider: Provider, workload: AnyWorkload, slot: str, repeat: int) -> str:
    """A trial's id: campaign, provider, kind, workload, slot and repeat; safe in file names and labels."""
    text = f"{campaign_id}.{provider.name}.{workload.kind}.{workload.name}.{slot.replace(':', '')}.r{repeat}".lower()
    return _UNSAFE_IN_ID.sub("-", text)


REQUIRED_EQUAL = {
    "kind": "training and inference are never compared",
    "workload": "different workloads measure different things",
    "version": "a workload's version is raised when what it measures changes",
    "protocol": "the harness measures differently",
    "engine": "a different engine is a different product",
}
"""Parts of a series key that comparable numbers must share, with the reason."""
SOURCES_NEVER_MIX = "the two never mix"
"""Why measured, simulated and imported numbers are kept apart."""

_REASONS = {
    "precision": "cheaper arithmetic is another product",
    "model.precision": "cheaper arithmetic is another product",
    "model": "another model computes something else",
    "batch": "another batch is other work in each step",
    "parallelism": "the work is spread differently",
    "task.command": "another command is other work",
    "task.environment": "a script reads its environment",
    "task.files": "another script is other work",
    "requests.input_tokens": "longer prompts take longer",
    "requests.output_tokens": "longer answers take longer",
    "requests.exact_output": "answers that may end earlier are not of one length",
    "requests.output": "natural answers end where the model ends them: only latencies a token compare",
    "requests.prompts": "other prompts are other work",
    "server.client_placement": "the network between client and server is part of the numbers",
    "server.client": "the network between client and server is part of the numbers",
    "replicas": "one server on a node and one for each of its accelerators do different work",
    "server.parallel": "the work is spread differently",
    "server.prefix_cache": "a prefix that is cached is not computed",
    "phases": "another load is another question",
}


def flatten(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of nested plain data with its path, such as `model.precision` or `phases[0].duration`."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from flatten(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, (list, tuple)) and data:
        for i, value in enumerate(data):
            yield from flatten(value, f"{path}[{i}]")
    else:
        # An empty group, such as engine_args {}, is unset; a leaf is hashable.
        yield path, None if isinstance(data, (Mapping, list, tuple)) else data


def specification_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each different field of two specifications with both values, "absent" for a missing one; ordered by field."""
    before, after = dict(flatten(old)), dict(flatten(new))
    for field in sorted(before.keys() | after.keys()):
        values = [fields.get(field, "absent") for fields in (before, after)]
        if values[0] != values[1]:
            yield field, values[0], values[1]


def difference_reason(field: str) -> str:
    """Why numbers that differ in this field are not comparable, by the longest matching prefix of the field."""
    fits = (name for name in _REASONS if field == name or field.startswith((f"{name}.", f"{name}[")))
    return _REASONS.get(max(fits, key=len, default=""), "the trials were asked for something else")
