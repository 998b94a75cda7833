"""What `plumbline check` says of pods: fields that come from `defaults.yaml`, the difference that each provider's `pod_patch` makes, and fields that no pod has."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from plumbline.cli.output import out, table
from plumbline.declarations import Declarations, KubernetesLauncher, Provider
from plumbline.launch.cluster import manifest
from plumbline.launch.cluster.doctor.typical import typical
from plumbline.launch.cluster.pod_shape import unknown_fields
from plumbline.launch.cluster.strategic_merge import differences

_LONG = 60


@dataclass(frozen=True)
class PatchedField:
    """A field of a provider's pods that its patch sets or removes. `known`: Kubernetes has such a field."""

    provider: str
    field: str
    before: Any
    after: Any
    known: bool


def patched_fields(declared: Declarations) -> list[PatchedField]:
    """Of a typical trial's pod of every provider with a `pod_patch`."""
    return [field for provider in sorted(declared.providers.values(), key=lambda p: p.name) for field in _of(declared, provider)]


def _of(declared: Declarations, provider: Provider) -> list[PatchedField]:
    launcher = provider.launcher
    if not isinstance(launcher, KubernetesLauncher) or not launcher.pod_patch:
        return []
    now = datetime.now(timezone.utc)
    trial = next(iter(typical(declared, provider, launcher, now)), None)
    if trial is None:
        return []
    plain = trial.model_copy(update={"provider": provider.model_copy(update={"launcher": launcher.model_copy(update={"pod_patch": {}})})})
    before, after = (manifest.pod(t, requested_at=now) for t in (plain, trial))
    unknown = unknown_fields(after)
    found = [PatchedField(provider.name, *fields, known=True) for fields in differences(before, after)]
    return found + [PatchedField(provider.name, field, None, None, known=False) for field in unknown]


def show_patched_fields(fields: list[PatchedField]) -> None:
    """As a table; nothing without a patch."""
    if not fields:
        return
    shown = table("What pod_patch changes of a trial's pod", "provider", "field", "before", "after")
    for item in fields:
        after = _short(item.after) if item.known else "no field of a pod: Kubernetes would drop it"
        shown.add_row(item.provider, item.field, _short(item.before), after, style=None if item.known else "red")
    out.print(shown)


def _short(value: Any) -> str:
    text = "–" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def show_defaults(declared: Declarations, shown: Collection[str]) -> None:
    """A line for each field that `defaults.yaml` gives, with those of the providers `shown` that take it."""
    takers: dict[str, list[str]] = {}
    for provider, fields in sorted(declared.from_defaults.items()):
        for field in fields if provider in shown else ():
            takers.setdefault(field, []).append(provider)
    for field, providers in takers.items():
        out.print(f"launcher.{field} from defaults.yaml: {', '.join(providers)}", highlight=False)
