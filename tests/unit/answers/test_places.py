"""Where teams run: as declared, else as accepted, else not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.findings.test_decision_change import opened

from plumbline.answers.places import with_places
from plumbline.archive import open_archive
from plumbline.declarations import Declarations, load
from plumbline.declarations.teams import Preference
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.workflows.findings import finding_record


def place(declared: Declarations, team: str) -> str | None:
    preference: Preference | None = declared.teams[team].training
    assert preference is not None
    return preference.current


def test_an_accepted_first_choice_is_where_the_team_runs_unless_it_declares_another(tmp_path: Path) -> None:
    declared = load()
    team = next(name for name, each in declared.teams.items() if each.training is not None)
    training = declared.teams[team].training
    assert training is not None and training.current is None
    finding = opened()
    first = finding.members[0].name
    finding = replace(finding, subject=FirstChoice.of(team, "training", training.workloads))
    declared.providers[first] = next(iter(declared.providers.values())).model_copy(update={"name": first})
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.save_findings([finding_record(finding)])
        assert place(with_places(archive, declared), team) is None, "a ranking is a recommendation"
        archive.set_finding_state(finding.finding_id, "accepted", by="ada", why="we switch")
        assert place(with_places(archive, declared), team) == first
        elsewhere = declared.teams[team].model_copy(update={"training": training.model_copy(update={"current": "elsewhere"})})
        said = replace(declared, teams={**declared.teams, team: elsewhere})
        assert place(with_places(archive, said), team) == "elsewhere", "what a team declares goes before"
        del declared.providers[first]
        assert place(with_places(archive, declared), team) is None, "a provider that is no longer declared is no place"
