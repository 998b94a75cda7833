"""Whether other load on this machine spoilt a campaign, whose numbers then rank nobody."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.analysis.campaign_data import CampaignData
from plumbline.results.document import MACHINE_BUSY


@dataclass(frozen=True)
class BusyMachine:
    """`share`: of the spoilt trials' cores, what others used on average; `programs`: the busiest of them by name, none where /proc hid them."""

    share: float
    programs: tuple[str, ...]


def busy_machine(campaign: CampaignData) -> BusyMachine | None:
    """None unless the quality checks rejected a trial for it."""
    spoilt = [
        d
        for d in campaign.documents
        if (quality := campaign.quality.get((d.trial.trial_id, d.trial.attempt))) is not None
        and any(reason.startswith(f"{MACHINE_BUSY}:") for reason in quality.reasons)
    ]
    if not spoilt:
        return None
    cores: dict[str, float] = {}
    for program in (each for d in spoilt for each in d.other_programs):
        cores[program.name] = cores.get(program.name, 0.0) + program.cores
    programs = sorted(cores, key=lambda name: (-cores[name], name))[:3]
    return BusyMachine(sum(d.foreign_cpu for d in spoilt) / len(spoilt), tuple(programs))
