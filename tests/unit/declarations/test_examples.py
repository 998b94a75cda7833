"""The examples that people copy: each can be planned on and launched as it stands, and a page says what is particular to its cloud."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest

from plumbline.declarations import EndpointLauncher, KubernetesLauncher, Provider, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.providers.launchers import PodResources
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.observe.node_room import requested_resources
from plumbline.launch.plan import typical_trials

CONFIG = REPOSITORY / "include" / "config"
DECLARED = load(CONFIG)
EXAMPLES = sorted((p for p in DECLARED.providers.values() if p.name.startswith("example-")), key=lambda p: p.name)
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
PAGE = (REPOSITORY / "docs" / "declare-a-provider.md").read_text()


@pytest.mark.parametrize("provider", EXAMPLES, ids=lambda p: p.name)
def test_an_example_is_disabled_and_names_its_page(provider: Provider) -> None:
    assert not provider.enabled
    named = re.search(r"docs/providers/[a-z]+\.md", (CONFIG / "providers" / f"{provider.name}.yaml").read_text())
    assert named is not None
    page = (REPOSITORY / named[0]).read_text()
    assert provider.name in page and len(page.splitlines()) < 60
    assert all(f"**{title}" in page for title in ("Requirements.", "Labels and taints.", "Quota.", "Differences."))


@pytest.mark.parametrize("provider", [p for p in EXAMPLES if isinstance(p.launcher, KubernetesLauncher)], ids=lambda p: p.name)
def test_an_example_becomes_a_pod(provider: Provider) -> None:
    assert isinstance(provider.launcher, KubernetesLauncher)
    trials = typical_trials(DECLARED, provider, NOW)
    assert [t.workload.kind for t in trials] == ["training", "inference"]
    assert trials[0].workload.needs.count == provider.accelerator.count, "nothing declared fits: a stand-in takes the whole node"
    for trial in trials:
        asked = requested_resources(pod_manifest(trial, requested_at=NOW))
        assert asked["nvidia.com/gpu"] == (trial.workload.gpus or provider.accelerator.count)
        assert all(asked[name] == count for name, count in provider.launcher.resources.extended.items())
    assert provider.prices and all(len(price.source) > 20 for price in provider.prices)


def test_one_example_needs_no_cluster() -> None:
    assert [p.name for p in EXAMPLES if isinstance(p.launcher, EndpointLauncher)] == ["example-runpod-endpoint"]


@pytest.mark.parametrize("model", [KubernetesLauncher, PodResources, EndpointLauncher])
def test_every_key_is_explained(model: type[KubernetesLauncher] | type[PodResources] | type[EndpointLauncher]) -> None:
    explained = set(re.findall(r"`([a-z_]+)", PAGE)) | set(re.findall(r"^  ([a-z_]+):", PAGE, re.MULTILINE))
    assert set(model.model_fields) - explained == set()
