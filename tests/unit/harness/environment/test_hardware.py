import json

import pytest
from tests.fakes.trials import declared, local_provider

from plumbline.declarations import Provider
from plumbline.harness.environment import accelerator_mismatch

EIGHT = {"gpu.count": 8, **{f"gpu.{i}.product": "NVIDIA-H100-80GB-HBM3" for i in range(8)}}


@pytest.fixture(scope="module")
def h100():
    return declared().providers["example-coreweave-h100"]


def test_the_declared_gpus_are_accepted(h100):
    assert accelerator_mismatch(h100, 8, EIGHT) is None


def test_too_few_gpus_are_named(h100, golden):
    golden("harness.too_few_gpus", accelerator_mismatch(h100, 8, EIGHT | {"gpu.count": 7}))


def test_one_gpu_of_another_product_is_found(h100):
    assert "NVIDIA-A100-SXM4-80GB" in str(accelerator_mismatch(h100, 8, EIGHT | {"gpu.3.product": "NVIDIA-A100-SXM4-80GB"}))


def test_not_having_looked_is_not_zero_gpus(h100):
    reason = "the package nvidia-ml-py is not installed"
    assert reason in (accelerator_mismatch(h100, 8, {"gpu.count": None, "gpu.unknown_because": reason}) or "")


def test_amds_cards_are_told_from_nvidias(h100):
    data = json.loads(h100.model_dump_json())
    data["accelerator"] = {"kind": "amd", "count": 1}
    data["launcher"]["gpu_resource"] = "amd.com/gpu"
    amd = Provider.model_validate_json(json.dumps(data))
    assert accelerator_mismatch(amd, 1, {"gpu.count": 1, "gpu.vendor": "amd", "gpu.0.product": "AMD-Instinct-MI300X"}) is None
    mismatch = accelerator_mismatch(amd, 1, {**EIGHT, "gpu.vendor": "nvidia"})
    assert mismatch is not None and "amd," in mismatch and "nvidia" in mismatch


def test_fewer_cores_than_declared_are_an_environment_fact():
    assert accelerator_mismatch(local_provider(cpus=[0, 1]), 2, {"cpu.usable": 1, "gpu.count": 0}) is None


def test_a_pod_sees_the_gpus_that_its_trial_asked_for(h100):
    one = {"gpu.count": 1, "gpu.0.product": EIGHT["gpu.0.product"]}
    assert accelerator_mismatch(h100, 1, one) is None
    mismatch = accelerator_mismatch(h100, 2, one)
    assert mismatch is not None and "requests 2," in mismatch and " 1 " in mismatch


def test_a_pod_that_fills_its_node_sees_all_gpus(h100):
    assert accelerator_mismatch(h100, None, EIGHT) is None
    mismatch = accelerator_mismatch(h100, None, {**EIGHT, "gpu.count": 7})
    assert mismatch is not None and " 7 " in mismatch
