"""NVML is a driver's library: here a stand-in with its functions answers as a driver with two GPUs would."""

from types import SimpleNamespace

import pytest

from plumbline.harness.environment.nvidia import NvidiaDriver, _nvlink_topology, nvidia_facts, product_name, visible_indices


class NvmlError(Exception):
    pass


def driver(init=None, **changed):
    def refuse(*_):
        raise NvmlError("Not Supported")

    def start():
        if init:
            raise NvmlError(init)

    answers = {
        "NVMLError": NvmlError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "nvmlInit": start,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetUUID": lambda h: f"GPU-{h}{h}{h}",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
        "nvmlDeviceGetName": lambda h: ["NVIDIA H100 80GB HBM3", "NVIDIA A100"][h],
        "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=85520809984),
        "nvmlDeviceGetVbiosVersion": lambda h: "96.00",
        "nvmlDeviceGetMaxClockInfo": lambda h, which: {1: 1980, 2: 2619}[which],
        "nvmlDeviceGetApplicationsClock": refuse,
        "nvmlDeviceGetEnforcedPowerLimit": lambda h: 700000,
        "nvmlDeviceGetEccMode": lambda h: [1, 1],
        "nvmlDeviceGetMigMode": refuse,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda h: 5,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda h: 16,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda h: [16, 8][h],
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda h: 700000,
        "nvmlDeviceGetCudaComputeCapability": lambda h: (9, 0),
        "nvmlDeviceGetGspFirmwareVersion": lambda h: b"570.86.15",
        "nvmlDeviceGetInforomImageVersion": lambda h: "G520.0200.00.05",
        "nvmlDeviceGetPersistenceMode": lambda h: 1,
        "NVML_NVLINK_MAX_LINKS": 36,
        "NVML_FEATURE_ENABLED": 1,
        "nvmlDeviceGetNvLinkState": refuse,
        "NVML_P2P_CAPS_INDEX_NVLINK": 2,
        "NVML_P2P_STATUS_OK": 0,
        "nvmlDeviceGetP2PStatus": lambda one, other, index: 5,
        "nvmlDeviceGetTopologyCommonAncestor": lambda one, other: 50,
    }
    return SimpleNamespace(**answers | changed)


def test_every_gpu_is_described(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = nvidia_facts(nvml=driver())
    assert (found["gpu.count"], found["driver.version"], found["cuda.version"]) == (2, "570.86.15", "12.8")
    assert found["gpu.0.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (found["gpu.0.power_limit_w"], found["gpu.0.ecc"], found["gpu.1.sm_clock_max_mhz"]) == (700.0, True, 1980)
    assert found["gpu.0.mig"] is None
    assert (found["gpu.0.power_limit_default_w"], found["gpu.0.compute_capability"], found["gpu.0.firmware"]) == (700.0, "9.0", "570.86.15")
    assert (found["gpu.0.pcie_width"], found["gpu.1.pcie_width"]) == (16, 8)
    assert not any("GPU-" in str(value) for value in found.values()), "an identity is no environment"


def test_links_between_gpus_are_told(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def state(handle, link):
        if link >= 18:
            raise NvmlError("Invalid Argument")
        return int(link != 3)

    switched = driver(nvmlDeviceGetNvLinkState=state, nvmlDeviceGetNvLinkVersion=lambda h, link: 4, nvmlDeviceGetP2PStatus=lambda *_: 0)
    found = nvidia_facts(nvml=switched)
    assert (found["gpu.0.nvlink_active"], found["gpu.0.nvlink_version"], found["gpu.nvlink_topology"]) == (17, 4, "NVLink: all")
    found = nvidia_facts(nvml=driver())
    assert (found["gpu.0.nvlink_active"], found["gpu.0.nvlink_version"], found["gpu.nvlink_topology"]) == (0, None, "between CPUs: all")


def test_pairs_that_differ_are_named():
    bridged = driver(nvmlDeviceGetP2PStatus=lambda one, other, index: 0 if {one, other} in ({0, 1}, {2, 3}) else 5)
    assert _nvlink_topology(NvidiaDriver(bridged), [0, 1, 2, 3]) == "NVLink: 0-1 2-3; between CPUs: 0-2 0-3 1-2 1-3"


def test_only_visible_gpus_count(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = nvidia_facts(nvml=driver())
    assert "gpu.nvlink_topology" not in found
    assert (found["gpu.count"], found["gpu.0.product"]) == (1, "NVIDIA-A100")
    assert "gpu.1.product" not in found


def test_a_machine_without_a_trace_of_a_gpu_has_none(tmp_path):
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0/vendor").write_text("0x1af4\n")
    found = nvidia_facts(tmp_path, driver(init="Driver Not Loaded"))
    assert found["gpu.count"] == 0
    assert "gpu.unknown_because" not in found


@pytest.mark.parametrize("trace", ["dev/nvidia0", "pci"])
def test_a_gpu_without_its_driver_is_not_zero_gpus(tmp_path, trace):
    device = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    device.mkdir(parents=True)
    if trace == "pci":
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
    else:
        (tmp_path / trace).parent.mkdir()
        (tmp_path / trace).touch()
    refusal = "Driver Not Loaded"
    facts = nvidia_facts(tmp_path, driver(init=refusal))
    assert facts["gpu.count"] is None
    assert str(facts["gpu.unknown_because"]).endswith(refusal)


def test_an_nvidia_network_card_is_no_gpu(tmp_path):
    device = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x020000\n")
    assert nvidia_facts(tmp_path, driver(init="Driver Not Loaded"))["gpu.count"] == 0


def test_a_driver_that_fails_half_way_is_not_zero_gpus():
    def lost(_):
        raise NvmlError("GPU is lost")

    assert nvidia_facts(nvml=driver(nvmlDeviceGetHandleByIndex=lost))["gpu.unknown_because"] == "GPU is lost"


@pytest.mark.parametrize(
    ("setting", "shown"),
    [(None, [0, 1]), ("", []), ("1,0", [1, 0]), ("0,7,1", [0]), ("GPU-bb", [1]), ("0,0", [0]), ("-1", [])],
)
def test_visibility_is_read_as_cuda_reads_it(setting, shown):
    assert visible_indices([("0", "GPU-aa", False), ("1", "GPU-bb", False)], setting) == shown


@pytest.mark.parametrize("separator", [" ", "-"])
def test_products_are_written_as_node_labels_write_them(separator):
    assert product_name("NVIDIA-H100-80GB-HBM3".replace("-", separator)) == "NVIDIA-H100-80GB-HBM3"
