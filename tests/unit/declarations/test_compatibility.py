"""The scratch disk that a trial's pod needs, from what its workload declares."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.data.manifests.rewrite import EIGHT_GPUS, h100
from tests.fakes.trials import CONFIG

from plumbline.declarations import TrainingWorkload, incompatibility, load
from plumbline.declarations.compatibility import GIB, Scratch, scratch_needed

DECLARED = load(CONFIG).workloads


def changed(name: str, **fields: Any) -> TrainingWorkload:
    data = json.loads(DECLARED[name].model_dump_json())
    for path, value in fields.items():
        inner = data
        *parents, last = path.split("__")
        for part in parents:
            inner = inner[part]
        inner[last] = value
    return TrainingWorkload.model_validate_json(json.dumps(data))


def scratch(workload: TrainingWorkload) -> Scratch:
    found = scratch_needed(workload)
    assert found is not None
    return found


def test_a_checkpoint_is_the_weights_and_both_moments_in_fp32_and_one_more_is_kept_while_it_is_written_and_one_for_a_fault() -> None:
    workload = changed("pretrain-1b-gpu", checkpoint__keep=2)
    assert scratch(workload).checkpoints == 4 * 12 * workload.model.parameters  # type: ignore[union-attr]
    assert scratch(changed("pretrain-1b-gpu", checkpoint__keep=5, fault=None)).checkpoints == 6 * 12 * workload.model.parameters  # type: ignore[union-attr]
    assert scratch(changed("pretrain-1b-gpu", checkpoint__keep=2, optimizer__name="sgd")).checkpoints == 4 * 4 * workload.model.parameters  # type: ignore[union-attr]


def test_a_node_holds_its_part_of_a_replica_that_several_share() -> None:
    one = scratch(changed("pretrain-8b-8gpu")).checkpoints
    four = scratch(changed("pretrain-8b-8gpu", parallelism={"strategy": "fsdp", "nodes": 4, "processes": 8}, batch__total=None))
    assert four.checkpoints == one / 4


def test_data_and_stored_weights_count() -> None:
    tokens = DECLARED["pretrain-1b-gpu"].data.tokens  # type: ignore[union-attr]
    assert scratch(changed("pretrain-1b-gpu", data__tokens=10 * tokens)).data == 10 * scratch(changed("pretrain-1b-gpu")).data > 0
    stored = changed("finetune-1b-gpu")
    assert scratch(stored).weights == 4 * stored.model.parameters  # type: ignore[union-attr]
    assert scratch(changed("pretrain-1b-gpu")).weights == 0


def test_of_a_model_whose_size_is_not_declared_nothing_is_computed() -> None:
    hub = {"architecture": "hub", "id": "a/b", "revision": 40 * "0"}
    assert scratch_needed(changed("pretrain-1b-gpu", model=hub)) is None


def test_checkpoints_on_a_volume_that_outlives_the_pod_need_no_scratch() -> None:
    deleting = {"inject": "pod_delete", "at_step": 50}
    assert scratch(changed("gpt-tiny-cpu", fault=deleting)).checkpoints == 0


@pytest.mark.parametrize(("declared", "fits"), [("100GiB", False), ("1TiB", True), (None, True)])
def test_a_provider_that_declares_less_does_not_fit_and_both_numbers_are_named(declared: str | None, fits: bool) -> None:
    workload = changed("pretrain-8b-8gpu")
    resources = {"cpu": 96, "memory": "900GiB", "ephemeral_storage": declared}
    why = incompatibility(workload, h100(resources=resources))
    assert (why is None) == fits
    if why is not None:
        assert f"{scratch(workload).total / GIB:.0f} GiB" in why and "100 GiB" in why
    assert workload.needs.count == EIGHT_GPUS["needs"]["count"]
