"""What is on a cluster is counted by campaign; a campaign's launches are deleted on demand, and no other's."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from tests.fakes.fake_kubernetes import Script
from tests.unit.launch.cluster.operate.test_attempt import NS, World, kube, world
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.dashboard.pages.providers import _cluster_facts
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.operate import sweep
from plumbline.launch.cluster.operate.sweep import campaign_launches, sweep_expired
from plumbline.launch.leftovers import stored_leftovers
from plumbline.workflows import sweep as sweep_workflow

__all__ = ["kube", "world"]


@pytest.fixture
def two(world: World) -> tuple[str, str]:
    """Two running pods: one of this installation's campaign, one that another installation launched for a campaign of the same name."""
    world.kube.script("*", Script().started())
    attempt = world.begin()
    other = attempt.trial.model_copy(update={"planned_at": datetime(2020, 1, 1, tzinfo=timezone.utc)})
    stranger = pod_manifest(other, requested_at=datetime(2020, 1, 1, tzinfo=timezone.utc))
    world.kube.store.create("pods", NS, stranger)
    mine = pod_manifest(attempt.trial, requested_at=attempt.requested_at)["metadata"]["name"]
    world.kube.wait_for(lambda: all(p["status"].get("containerStatuses") for p in world.kube.pods().values()), "both run")
    return mine, stranger["metadata"]["name"]


def deleted(two: tuple[str, str]) -> list[str]:
    """The launch's pod and the Secret with its key."""
    return [f"Pod {two[0]}", f"Secret {two[0].removesuffix('-0')}-key"]


@pytest.mark.fault("pods of a campaign are left on a cluster", ends="deleted by plumbline cluster sweep --campaign", keeps="all other pods")
def test_a_campaigns_own_launches_are_deleted_and_no_other_installations(world: World, two: tuple[str, str]) -> None:
    launcher = cluster_declaration(world.provider)
    assert sweep.count_pods(launcher).running == {world.trial.campaign_id: 2}
    assert sweep_expired(launcher, 0.0) == [], "none of them is past its end"
    assert sweep_expired(launcher, launches=campaign_launches(world.trial.campaign_id, world.provider.name)) == deleted(two)
    world.kube.wait_for(lambda: set(world.kube.pods()) == {two[1]}, "the other one stays")
    with pytest.raises(LookupError, match="2031-01"):
        campaign_launches("2031-01", world.provider.name)


def test_a_count_is_kept_for_the_providers_page(world: World, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(timezone.utc)
    assert stored_leftovers(world.provider.name) is None
    assert "not counted yet" in _cluster_facts(world.provider, now)[0][1]
    declared = type("Declared", (), {"providers": {world.provider.name: world.provider}})
    monkeypatch.setattr(sweep_workflow, "load_in_force", lambda: declared)
    assert sweep_workflow.sweep_cluster(world.provider.name) == [f"Pod {two[1]}"], "its launch was over in 2020"
    kept = stored_leftovers(world.provider.name)
    assert kept is not None and (kept.running, kept.expired) == ({world.trial.campaign_id: 1}, 0)
    ((_, shown),) = _cluster_facts(world.provider, now)
    assert shown.startswith("1 pod ") and world.trial.campaign_id in shown


def test_the_command_says_what_is_left(world: World, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.cli.cluster._reached", lambda *_: (world.provider, None, world.provider.launcher.namespace))
    result = CliRunner().invoke(app, ["cluster", "sweep", world.provider.name, "--campaign", world.trial.campaign_id, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["deleted"] == deleted(two) and (said["left"]["pods"], said["left"]["expired"]) == ({world.trial.campaign_id: 1}, 1)
    wrong = CliRunner().invoke(app, ["cluster", "sweep", world.provider.name, "--campaign", "2031-01"])
    assert wrong.exit_code == 2 and "2031-01" in wrong.stderr
