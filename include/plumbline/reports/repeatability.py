"""Whether repeats learned the same: the losses of their steps, bit for bit."""

from __future__ import annotations

from collections import Counter

from plumbline.reports.content import CampaignData


def same_losses(campaign: CampaignData) -> tuple[str, ...]:
    """One sentence for each training workload and provider with two repeats or more whose losses are known; empty without one."""
    found: dict[tuple[str, str], list[str]] = {}
    for document in campaign.documents:
        told = document.reproducibility
        if told is not None and "losses" in told.hashes and document.validity.status != "failed":
            found.setdefault((document.trial.workload.name, document.trial.provider.name), []).append(told.hashes["losses"])
    return tuple(_sentence(workload, provider, hashes) for (workload, provider), hashes in sorted(found.items()) if len(hashes) > 1)


def _sentence(workload: str, provider: str, hashes: list[str]) -> str:
    kinds = Counter(hashes)
    if len(kinds) == 1:
        return f"{workload} on {provider}: all {len(hashes)} repeats had the same losses, bit for bit."
    alike = kinds.most_common(1)[0][1]
    most = f"{alike} of them alike" if alike > 1 else "no two alike"
    return f"{workload} on {provider}: the losses of {len(hashes)} repeats differ, {most}; deterministic: true asks for the same ones each time."
