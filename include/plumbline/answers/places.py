"""Where teams run their workloads: as declared, else as accepted. *Stay*, *move from* and every saving start there."""

from __future__ import annotations

from dataclasses import replace

from plumbline.analysis.campaign_data import ChoiceKey
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.declarations.teams import KINDS, Preference, Team
from plumbline.findings.types.first_choice import FirstChoice


def with_places(archive: Archive, declared: Declarations) -> Declarations:
    """The declarations with the first choice that was accepted last as `current` of each choice whose team declares none.

    Without either the place stays unknown: a ranking is a recommendation.
    """
    if all(preference.current is not None for _, _, preference in declared.choices()):
        return declared
    accepted = {choice: place for choice, place in accepted_places(archive).items() if place in declared.providers}
    if not accepted:
        return declared
    return replace(declared, teams={name: _placed(team, accepted) for name, team in declared.teams.items()})


def accepted_places(archive: Archive) -> dict[ChoiceKey, str]:
    """Choice → the provider of the first choice that was accepted last: accepting it means that the team switches."""
    views = [v for v in archive.findings("accepted") if str(v.detail.get("subject", "")).startswith(FirstChoice.subject)]
    views.sort(key=lambda view: view.updated_at)
    return {FirstChoice.choice(f): f.members[0].name for f in readable_findings(views) if f.members}


def _placed(team: Team, accepted: dict[ChoiceKey, str]) -> Team:
    def at(kind: str, preference: Preference) -> Preference:
        place = accepted.get((team.name, kind, tuple(preference.workloads)))
        return preference if place is None or preference.current is not None else preference.model_copy(update={"current": place})

    mains: dict[str, Preference] = {kind: at(kind, main) for kind in KINDS if (main := getattr(team, kind)) is not None}
    also: dict[str, tuple[Preference, ...]] = {kind: tuple(at(kind, further) for further in getattr(team.also, kind)) for kind in KINDS}
    return team.model_copy(update={**mains, "also": team.also.model_copy(update={**also})})
