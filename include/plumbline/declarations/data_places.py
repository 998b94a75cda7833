"""Where a script's data is for trials of a provider, and what a trial fetches."""

from __future__ import annotations

from plumbline.declarations.providers.provider import Provider
from plumbline.declarations.workloads.any_workload import AnyWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.declarations.workloads.script import DATA_ADDRESS, ScriptData, ScriptWorkload
from plumbline.metrics.formatting import format_bytes


def data_of(workload: AnyWorkload) -> ScriptData | None:
    """The data of a script that has some."""
    return workload.task.data if isinstance(workload, ScriptWorkload) else None


def address_of(data: ScriptData, provider: Provider) -> str:
    """Where trials of the provider read it; of a volume that they see, its folder."""
    place = provider.data_places.get(data.name or "", data.place)
    parts = DATA_ADDRESS.fullmatch(place)
    mount = parts and {each.name: each.mount for each in getattr(provider.launcher, "volumes", ())}.get(parts["volume"])
    return f"{mount}{parts['below']}" if parts and mount else place


def describe(data: ScriptData, provider: Provider) -> str:
    """How trials of the provider get it, in words."""
    address = address_of(data, provider)
    size = "of undeclared size" if data.size is None else format_bytes(data.size)
    return f"read by the command from {address}" if data.read == "stream" else f"fetched before the command starts from {address} ({size})"


def fetches_from_outside(workload: AnyWorkload, provider: Provider) -> bool:
    """Whether a script's data leaves another place for the provider: it is neither in a folder or volume nor at the provider's own address."""
    data = data_of(workload)
    return data is not None and data.name not in provider.data_places and not data.place.startswith(("/", "volume:"))


def fetched_source(workload: AnyWorkload, provider: Provider) -> Checkpoint | None:
    """What a trial fetches with the provider's `models_connection` or `models_secret`: a checkpoint, or a script's data that it reads once."""
    if (data := data_of(workload)) is None:
        model = getattr(workload, "model", None)
        return model if isinstance(model, Checkpoint) else None
    address = address_of(data, provider)
    parts = DATA_ADDRESS.fullmatch(address)
    if data.read == "stream" or parts is None:
        return None
    if parts["id"]:
        return HubCheckpoint(source="hub", id=parts["id"], revision=parts["revision"])
    return UrlCheckpoint(source="url", url=address) if parts["url"] else FolderCheckpoint(source="folder", path=address)
