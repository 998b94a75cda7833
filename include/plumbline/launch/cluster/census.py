"""How many objects of ours are on a provider's cluster. The hourly upkeep stores the count for the pages, which ask no cluster."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from plumbline.declarations import KubernetesLauncher, places
from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import PATIENCE_S, ClusterApi
from plumbline.launch.cluster.sweep import expires_s


@dataclass(frozen=True)
class Census:
    """`pods` by campaign (its label's value; "" for pods without one, such as a doctor's), without those that are being deleted; `expired`: pods whose launch's time is over.

    `utc`: when they were counted, ISO 8601.
    """

    pods: dict[str, int]
    expired: int
    utc: str

    def __str__(self) -> str:
        total = sum(self.pods.values())
        if not total:
            return "no pods"
        campaigns = ", ".join(f"{n} of {campaign}" if campaign else f"{n} of no campaign" for campaign, n in sorted(self.pods.items()))
        over = f"; {self.expired} past {'its' if self.expired == 1 else 'their'} end" if self.expired else ""
        return f"{total} pod{'' if total == 1 else 's'} ({campaigns}){over}"


def count(launcher: KubernetesLauncher, patience_s: float = PATIENCE_S) -> Census:
    """Count now. BadDeclaration, Refused or Unreachable if the cluster cannot be asked."""
    now = datetime.now(timezone.utc)
    every = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s).pods(f"{names.MANAGED_BY}={names.MANAGER}")
    pods = [pod for pod in every if "deletionTimestamp" not in pod["metadata"]]
    campaigns = Counter(str((pod["metadata"].get("labels") or {}).get(names.CAMPAIGN, "")) for pod in pods)
    over = [pod for pod in pods if (at := expires_s(pod)) is not None and at < now.timestamp()]
    return Census(dict(campaigns), len(over), now.isoformat(timespec="seconds"))


def keep(provider: str, census: Census) -> None:
    """Store a provider's newest count. A reader sees the old one or the new one."""
    file = _file(provider)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(census)), encoding="utf-8")
    draft.replace(file)


def kept(provider: str) -> Census | None:
    """The newest stored count; None if there is none that can be read."""
    try:
        return Census(**json.loads(_file(provider).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _file(provider: str) -> Path:
    return places().work / f"{provider}.cluster"
