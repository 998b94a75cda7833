"""Weights and KV cache against the memory of a provider's accelerators, before anything is fetched or launched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.trials import CPU, H100, cluster_provider
from tests.golden import Golden
from tests.unit.declarations.workloads.test_checkpoints import HUB, workload

from plumbline.declarations import InferenceWorkload, Provider, incompatibility
from plumbline.declarations.compatibility import accelerator_memory, model_fit, scratch_needed
from plumbline.declarations.providers.provider import Accelerator

GIB = 2**30
SIZES = {"context": 8192, "kv_cache_bytes_per_token": 131072}


def served(weights: int, count: int = 1, sequences: int = 64, **model: Any) -> InferenceWorkload:
    server = {"backend": "vllm", "sequences": sequences}
    return workload(HUB | SIZES | {"weights_bytes": weights} | model, server=server, needs={"accelerator": "nvidia", "count": count})


def node(**accelerator: Any) -> Provider:
    return cluster_provider(accelerator=H100 | accelerator)


def test_a_model_that_fits_leaves_room_for_a_number_of_sequences(golden: Golden) -> None:
    fit = model_fit(served(16 * GIB), node())
    assert fit is not None and fit.fits
    assert fit.full_sequences == 56  # 0.9 × 80 − 16 = 56 GiB, and a sequence of 8,192 tokens takes one
    golden("model_fit.arithmetic", fit.arithmetic)


@pytest.mark.parametrize(("count", "fits"), [(1, False), (2, True)])
def test_accelerators_add_up(count: int, fits: bool) -> None:
    why = incompatibility(served(100 * GIB, count), node())
    assert (why is None) == fits
    assert fits or (why is not None and "needs.count" in why)


def test_one_sequence_must_fit_beside_the_weights() -> None:
    assert incompatibility(served(71 * GIB, context=8192), node()) is None
    assert incompatibility(served(71 * GIB, context=16384), node()) is not None


@pytest.mark.parametrize("changed", [{"weights_bytes": None}, {"weights_bytes": 500 * GIB, "source": "folder"}])
def test_what_is_unknown_is_not_refused(changed: dict[str, Any]) -> None:
    model = {key: value for key, value in (HUB | SIZES | changed).items() if value is not None}
    if changed.get("source") == "folder":  # on a provider whose accelerator is unknown
        model = {"source": "folder", "path": "/m", "weights_bytes": 500 * GIB}
        place = node(product=None)
    else:
        place = node()
    made = workload(model, needs={"accelerator": "nvidia", "count": 1})
    assert model_fit(made, place) is None and incompatibility(made, place) is None


def test_a_provider_of_cores_is_measured_by_its_main_memory() -> None:
    small = workload(HUB | {"weights_bytes": 4 * GIB})
    fit = model_fit(small, cluster_provider(accelerator=CPU))
    assert fit is not None and (fit.each, fit.fits) == (2 * GIB, False)


@pytest.mark.parametrize(
    ("product", "gib"),
    [
        ("NVIDIA-H100-80GB-HBM3", 80),
        ("NVIDIA-H200", 141),
        ("NVIDIA-L40S", 48),
        ("Tesla-T4", 16),
        ("NVIDIA-A10G", 24),
        ("AMD-Instinct-MI300X-OAM", 192),
        ("Tesla-V100-SXM2-16GB", 16),
        ("Unheard-Of", None),
    ],
)
def test_a_products_memory_is_known_by_its_name(product: str, gib: int | None) -> None:
    found = accelerator_memory(Accelerator(kind="nvidia", product=product, count=1))
    assert found == (None if gib is None else gib * GIB)


def test_declared_memory_wins() -> None:
    declared = Accelerator.model_validate_json(json.dumps(H100 | {"memory": "64GiB"}))
    assert accelerator_memory(declared) == 64 * GIB


def test_a_fetched_checkpoint_takes_scratch_disk_unless_a_volume_holds_it() -> None:
    made = served(16 * GIB)
    needed, cached = scratch_needed(made), scratch_needed(made, cached=True)
    assert needed is not None and cached is not None and needed.weights - cached.weights == 16 * GIB
