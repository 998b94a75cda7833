"""`defaults.yaml`: what cluster providers have in common, for those that leave it out. A new image digest is one edit."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.launchers import Images
from plumbline.declarations.pods import Registry, Variables


class Defaults(Declared):
    """Of every provider whose launcher is `kubernetes`."""

    images: Images | None = Field(None, description="for providers without images")
    registry: Registry | None = Field(None, description="for providers without a registry")
    env: Variables = Field(default_factory=dict, description="variables that a provider's own env does not set")


def fill_in(provider: Any, defaults: Defaults) -> list[str]:
    """Add the defaults to a provider's data, as read from its file; the fields of `launcher` that were added, such as `env.NCCL_DEBUG`."""
    launcher = provider.get("launcher") if isinstance(provider, dict) else None
    if not isinstance(launcher, dict) or launcher.get("kind") != "kubernetes":
        return []
    common = defaults.model_dump(mode="json", exclude_none=True)
    added: list[str] = [field for field in ("images", "registry") if field in common and field not in launcher]
    launcher |= {field: common[field] for field in added}
    own = launcher.setdefault("env", {}) if common["env"] else None
    if isinstance(own, dict):
        missing = [name for name in common["env"] if name not in own]
        launcher["env"] = own | {name: common["env"][name] for name in missing}
        added += [f"env.{name}" for name in missing]
    return added
