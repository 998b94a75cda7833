"""Where a script's data is at each provider, what a trial fetches of it, and what of that comes from elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.trials import a_trial, cluster_provider, declared, local_provider
from tests.unit.declarations.workloads.test_script import IMAGE, changed, trial_of

from plumbline.declarations import Provider, Trial, incompatibility, spec_hash
from plumbline.declarations.compatibility import GIB, scratch_needed
from plumbline.declarations.data_places import address_of, data_of, describe, fetched_source, fetches_from_outside
from plumbline.declarations.trials import without_defaults
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.declarations.workloads.script import ScriptWorkload, Work
from plumbline.launch.monthly_estimate import estimate_trial_s

COMMIT = "0" * 40
VOLUME = {"name": "sets", "claim": "sets", "mount": "/sets", "read_only": True}


def reading(place: str, **fields: Any) -> ScriptWorkload:
    return changed(data={"from": place, **fields})


def with_places(provider: Provider, **places: str) -> Provider:
    return Provider.model_validate_json(json.dumps(provider.model_dump(mode="json") | {"data_places": places}))


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("s3://bucket/set", UrlCheckpoint(source="url", url="s3://bucket/set")),
        ("https://host/a.bin", UrlCheckpoint(source="url", url="https://host/a.bin")),
        (f"hub:org/set@{COMMIT}", HubCheckpoint(source="hub", id="org/set", revision=COMMIT)),
        ("/data/set", FolderCheckpoint(source="folder", path="/data/set")),
        ("volume:sets/one", FolderCheckpoint(source="folder", path="/sets/one")),
    ],
)
def test_an_address_is_a_source_as_a_checkpoint_s_and_travels_in_the_trial(place: str, source: object) -> None:
    provider, workload = cluster_provider(volumes=[VOLUME]), reading(place)
    assert fetched_source(workload, provider) == source
    assert fetched_source(reading(place, read="stream"), provider) is None
    trial = trial_of(workload)
    assert Trial.model_validate_json(trial.model_dump_json()) == trial == Trial.model_validate_json(json.dumps(without_defaults(trial)))


def test_a_checkpoint_is_fetched_too_and_other_workloads_fetch_nothing() -> None:
    provider = local_provider()
    assert fetched_source(changed(), provider) is None and data_of(changed()) is None
    assert all(fetched_source(declared().workloads[name], provider) is None for name in ("gpt-tiny-cpu", "chat-tiny-cpu"))


def test_a_provider_has_the_data_at_an_address_of_its_own() -> None:
    workload, provider = reading("s3://far/set", name="set"), local_provider()
    own = with_places(provider, set="s3://near/set")
    data = data_of(workload)
    assert data is not None and (address_of(data, provider), address_of(data, own)) == ("s3://far/set", "s3://near/set")
    assert fetches_from_outside(workload, provider) and not fetches_from_outside(workload, own)
    assert fetches_from_outside(reading("s3://far/set"), own) and not fetches_from_outside(reading("/d"), own)
    assert not fetches_from_outside(changed(), own)
    assert with_places(provider, set="s3://near/set").of_trial().data_places == {"set": "s3://near/set"}
    assert describe(data, own) == "fetched before the command starts from s3://near/set (of undeclared size)"
    streamed = data_of(reading("s3://far/set", read="stream"))
    assert streamed is not None and describe(streamed, own) == "read by the command from s3://far/set"


def test_a_volume_that_no_trial_sees_makes_a_provider_unfit() -> None:
    workload = reading("volume:sets/one", name="set").model_copy(update={"providers": None})
    assert incompatibility(workload, cluster_provider(images={"training": IMAGE}, volumes=[VOLUME])) is None
    why = incompatibility(workload, cluster_provider(images={"training": IMAGE}))
    assert why is not None and "volume:sets/one, which no trial there sees; expected a mount in launcher.volumes" in why
    assert incompatibility(workload, with_places(cluster_provider(images={"training": IMAGE}), set="s3://near/set")) is None
    simulated = {"kind": "simulated", "seed": 1}
    assert (
        incompatibility(
            workload, Provider.model_validate_json(json.dumps(local_provider().model_dump(mode="json") | {"launcher": simulated}))
        )
        is None
    )


def test_fetched_data_takes_scratch_disk() -> None:
    without = scratch_needed(changed())
    sized = scratch_needed(reading("/d", size="40GiB"))
    assert without is not None and sized is not None and sized.data == 40 * GIB and without.data == 0
    assert scratch_needed(reading("/d")) is None, "how much is unknown"
    assert scratch_needed(reading("/d", read="stream")) == without
    small = cluster_provider(
        images={"training": IMAGE}, resources={"cpu": 1, "memory": "2GiB", "shared_memory": "256MiB", "ephemeral_storage": "20GiB"}
    )
    why = incompatibility(reading("/d", size="40GiB"), small)
    assert why is not None and "data 40.0 GiB" in why
    assert incompatibility(reading("/d", size="1GiB"), small) is None


def test_its_size_is_for_plans_alone() -> None:
    assert spec_hash(reading("/d", size="40GiB")) == spec_hash(reading("/d")) != spec_hash(reading("/e"))
    assert spec_hash(reading("/d", sha256="0" * 64)) != spec_hash(reading("/d"))
    assert a_trial().provider.data_places == {}


def test_the_month_counts_the_fetch() -> None:
    provider = local_provider(timeout="3h")

    def seconds(workload: ScriptWorkload) -> float:
        whole, without = (each.model_copy(update={"work": Work(tokens=1000, flops=6e6)}) for each in (workload, changed()))
        return estimate_trial_s(whole, provider) - estimate_trial_s(without, provider)

    known = reading("/d", size="40GB")
    assert seconds(known) == pytest.approx(200.0) and seconds(reading("/d")) == 0 == seconds(reading("/d", read="stream", size="40GB"))
