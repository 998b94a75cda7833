"""Devices that are no whole, sound card: MIG instances, virtual and lost GPUs, and drivers that answer with garbage or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.trials import declared

from plumbline.harness.environment import accelerator_mismatch, check_accelerators, hardware_judgements
from plumbline.harness.environment.nvidia import DriverUnavailable, NvidiaDriver, nvidia_facts, visible_indices
from plumbline.harness.gpu_meters import open_meters
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.measurement import TrialFailed

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"


class NvmlError(Exception):
    """As the library raises it, with its code."""

    def __init__(self, text: str, value: int) -> None:
        super().__init__(text)
        self.value = value


class Driver:
    """NVML over cards that are dictionaries of answers by the name of the function without nvmlDeviceGet; an answer that is an error is raised,
    and what a card does not answer is not supported. `instances` of a card are its MIG devices."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_NVLINK_MAX_LINKS = 1, 2, 0, 4

    def __init__(self, *cards: Any, init: Exception | None = None) -> None:
        self.cards, self.init = cards, init

    def nvmlInit(self) -> None:
        if self.init:
            raise self.init

    def nvmlShutdown(self) -> None:
        return

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        if isinstance(self.cards[index], Exception):
            raise self.cards[index]
        return self.cards[index]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: dict[str, Any]) -> int:
        return 7 if "instances" in card else self._refuse()

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: dict[str, Any], position: int) -> Any:
        return card["instances"][position] if position < len(card["instances"]) else self._refuse()

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.126.09"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(card: dict[str, Any], *arguments: Any) -> Any:
            found = card.get(name.removeprefix("nvmlDeviceGet"))
            if isinstance(found, Exception):
                raise found
            if name == "nvmlDeviceGetNvLinkState" and found is not None:
                return found[arguments[0]]
            return self._refuse() if found is None else found

        return answer

    def _refuse(self) -> Any:
        raise NvmlError("Not Supported", 3)


def card(number: int = 0, name: Any = H100, total: int | None = 80 * GIB, **answers: Any) -> dict[str, Any]:
    memory = {} if total is None else {"MemoryInfo": SimpleNamespace(total=total, used=GIB)}
    sound = {"EnforcedPowerLimit": 700_000, "PowerManagementDefaultLimit": 700_000, "MaxPcieLinkWidth": 16, "CurrPcieLinkWidth": 16}
    return {"UUID": f"GPU-{number}aaaaaaa", "Name": name, "PowerUsage": 300_000, "MigMode": (0, 0), **memory, **sound, **answers}


def instance(number: int, profile: str, total: int, name: str | None = None) -> dict[str, Any]:
    return {"UUID": f"MIG-{number}bbbbbbb", "Name": name or f"{H100} MIG {profile}", "MemoryInfo": SimpleNamespace(total=total, used=GIB)}


LOST = NvmlError("GPU is lost", 15)


def h100_provider() -> Any:
    return declared().providers["example-coreweave-h100"]


def test_a_mig_instance_has_its_own_product_and_memory_and_nobodys_power() -> None:
    facts = nvidia_facts(
        nvml=Driver(card(MigMode=(1, 1), instances=[instance(0, "1g.10gb", 9856 * 2**20), instance(1, "3g.40gb", 40448 * 2**20)]))
    )
    assert facts["gpu.count"] == 2
    assert (facts["gpu.0.product"], facts["gpu.0.slice"]) == ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "MIG 1g.10gb")
    assert (facts["gpu.1.product"], facts["gpu.1.memory_bytes"]) == ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 40448 * 2**20)
    assert (facts["gpu.0.power_limit_w"], facts["gpu.0.power_limit_default_w"]) == (None, None)
    assert "gpu.nvlink_topology" not in facts


def test_a_mig_instance_whose_name_lacks_its_profile_is_named_by_its_attributes() -> None:
    one = instance(0, "", 19968 * 2**20, name="NVIDIA A100-SXM4-40GB")
    one["Attributes_v2"] = SimpleNamespace(gpuInstanceSliceCount=3, memorySizeMB=19968)
    facts = nvidia_facts(nvml=Driver(card(name="NVIDIA A100-SXM4-40GB", total=40 * GIB, MigMode=(1, 1), instances=[one])))
    assert facts["gpu.0.product"] == "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"


def test_a_cut_card_whose_instances_are_not_listed_is_one_slice_of_unknown_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in (None, "MIG-3d8c12ab-5e0c-5f3a-9f7b-000000000000", "MIG-GPU-0aaaaaaa/1/0"):
        if setting is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        facts = nvidia_facts(nvml=Driver(card(MigMode=(1, 1))))
        assert (facts["gpu.count"], facts["gpu.0.product"], facts["gpu.0.memory_bytes"]) == (1, "NVIDIA-H100-80GB-HBM3-MIG", None)


def test_a_slice_is_not_measured_as_a_whole_card() -> None:
    cut = nvidia_facts(nvml=Driver(card(MigMode=(1, 1), instances=[instance(0, "1g.10gb", 9856 * 2**20)])))
    wrong = accelerator_mismatch(h100_provider(), 1, cut)
    assert wrong is not None and "MIG 1g.10gb" in wrong and "accelerator.product: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb" in wrong
    slices = h100_provider().accelerator.model_copy(update={"product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})
    assert accelerator_mismatch(h100_provider().model_copy(update={"accelerator": slices}), 1, cut) is None
    assert accelerator_mismatch(h100_provider(), 1, nvidia_facts(nvml=Driver(card()))) is None


@pytest.mark.parametrize(
    ("virtual", "part"),
    [
        (card(name="GRID A100-3-20C", total=20 * GIB), "vGPU of 20 GiB"),
        (card(name="NVIDIA A40", total=45 * GIB, VirtualizationMode=2), "vGPU"),
        (card(total=20 * GIB), "20 of 80 GiB"),
    ],
    ids=["by its name", "by its mode", "by its memory"],
)
def test_a_virtual_gpu_is_a_part_of_a_card(virtual: dict[str, Any], part: str) -> None:
    facts = nvidia_facts(nvml=Driver(virtual))
    assert facts["gpu.0.slice"] == part and facts["gpu.0.power_limit_w"] is None
    assert accelerator_mismatch(h100_provider(), 1, facts) is not None


@pytest.mark.parametrize(
    "whole",
    [card(VirtualizationMode=1), card(name="NVIDIA A10G", total=23028 * 2**20), card(name="NVIDIA GH200 480GB", total=97871 * 2**20)],
    ids=["passed through", "ECC takes a part", "the CPU's memory in its name"],
)
def test_a_whole_card_is_no_part(whole: dict[str, Any]) -> None:
    assert "gpu.0.slice" not in nvidia_facts(nvml=Driver(whole))


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("MIG-0bbbbbbb", [1]),
        ("MIG-1bb,MIG-0bb", [2, 1]),
        ("1", [1]),
        ("GPU-0aaaaaaa,MIG-1bbbbbbb", [0, 2]),
        ("GPU-", []),
        ("MIG-7", []),
        ("NoDevFiles", []),
    ],
)
def test_mig_instances_are_chosen_by_their_names(setting: str, shown: list[int]) -> None:
    devices = [("0", "GPU-0aaaaaaa", False), ("1", "MIG-0bbbbbbb", True), ("1", "MIG-1bbbbbbb", True), ("2", "GPU-2aaaaaaa", False)]
    assert visible_indices(devices, setting) == shown


def test_one_lost_gpu_of_eight_leaves_seven_described_and_is_named() -> None:
    facts = nvidia_facts(nvml=Driver(*(LOST if i == 3 else card(i) for i in range(8))))
    assert facts["gpu.count"] == 7
    assert [i for i in range(8) if facts.get(f"gpu.{i}.product")] == [0, 1, 2, 4, 5, 6, 7]
    assert "GPU is lost" in str(facts["gpu.3.lost"]) and "replace" in str(facts["gpu.3.lost"])
    wrong = accelerator_mismatch(h100_provider(), 8, facts)
    assert wrong is not None and "GPU 3 of 8 is lost" in wrong
    assert accelerator_mismatch(h100_provider(), 7, facts) is None
    assert [judgement.reason.code for judgement in hardware_judgements(facts)] == ["gpu_lost"]


def test_a_lost_gpu_reads_nothing_and_the_others_read_on() -> None:
    with GpuPhaseMonitor(60.0, Driver(card(0), LOST)) as monitor:
        monitor.change(None, "steady")
        monitor.change("steady", None)
    assert {row.signal for row in monitor.telemetry() if row.signal.startswith("gpu1_")} == set()
    assert any(row.signal == "gpu0_power" for row in monitor.telemetry())
    assert monitor.rows("steady") == [], "the power of all GPUs is unknown without one of them"


def test_a_gpu_of_another_container_is_not_lost() -> None:
    facts = nvidia_facts(nvml=Driver(card(0), NvmlError("Insufficient Permissions", 4)))
    assert facts["gpu.count"] == 1 and not any(name.endswith(".lost") for name in facts)


def test_a_driver_of_another_version_than_its_library_is_named_with_the_remedy(tmp_path: Any) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    facts = nvidia_facts(tmp_path, Driver(init=NvmlError("Driver/library version mismatch", 18)))
    assert facts["gpu.count"] is None
    assert "reload the driver" in str(facts["gpu.unknown_because"]) and "reboot" in str(facts["gpu.unknown_because"])
    assert nvidia_facts(tmp_path, Driver(init=NvmlError("Driver Not Loaded", 9)))["gpu.count"] == 0
    with pytest.raises(DriverUnavailable):
        NvidiaDriver(Driver(init=NvmlError("NVML Shared Library Not Found", 12)))


@pytest.mark.parametrize(
    "name", [b"\xf8\x92\xa0\x80", UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte"), "[N/A]", "", "\x01\x02"]
)
def test_a_name_that_is_no_text_is_one_unknown_fact(name: Any) -> None:
    facts = nvidia_facts(nvml=Driver(card(name=name)))
    assert (facts["gpu.count"], facts["gpu.0.product"], facts["gpu.0.memory_bytes"]) == (1, None, 80 * GIB)
    assert accelerator_mismatch(h100_provider(), 1, facts) is None
    assert [judgement.reason.code for judgement in hardware_judgements(facts)] == ["gpu_unnamed"]


@pytest.mark.parametrize("total", [0, None])
def test_a_system_whose_memory_is_shared_has_no_memory_of_the_gpu(total: int | None) -> None:
    facts = nvidia_facts(nvml=Driver(card(name="NVIDIA GB10", total=total)))
    assert facts["gpu.0.memory_bytes"] is None and "gpu.0.slice" not in facts
    meters = open_meters(Driver(card(name="NVIDIA GB10", total=total)))
    assert meters is not None and "memory_used" not in meters.read(0)


def test_readings_of_all_bits_and_of_nothing_are_left_out() -> None:
    meters = open_meters(
        Driver(card(PowerUsage=2**32 - 1, ClockInfo=2**32 - 1, Temperature="[N/A]", UtilizationRates=SimpleNamespace(gpu=65535)))
    )
    assert meters is not None and set(meters.read(0)) == {"memory_used"}
    assert nvidia_facts(nvml=Driver(card(EnforcedPowerLimit=2**32 - 1)))["gpu.0.power_limit_w"] is None


def test_a_mig_instance_reads_its_memory_and_no_power() -> None:
    meters = open_meters(Driver(card(MigMode=(1, 1), TotalEnergyConsumption=5, instances=[instance(0, "1g.10gb", 9856 * 2**20)])))
    assert meters is not None and meters.read(0) == {"memory_used": float(GIB)} and meters.joules(0) is None


def test_hidden_gpus_are_told_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    facts = nvidia_facts(nvml=Driver(card(0), card(1)))
    assert facts["gpu.count"] == 0 and facts["gpu.hidden_because"] == 'CUDA_VISIBLE_DEVICES is "-1", which shows none of 2 GPUs'
    assert "CUDA_VISIBLE_DEVICES" in str(accelerator_mismatch(h100_provider(), 1, facts))
    with pytest.raises(TrialFailed, match="CUDA_VISIBLE_DEVICES") as caught:
        check_accelerators(h100_provider(), 1, facts)
    assert caught.value.failure_class == "bad_declaration", "our own variable hides them"
    with pytest.raises(TrialFailed) as caught:
        check_accelerators(h100_provider(), 1, {"gpu.count": 0})
    assert caught.value.failure_class == "wrong_hardware"


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"EnforcedPowerLimit": 500_000}, "power_limit_lowered", "500 W; its default is 700 W"),
        ({"CurrPcieLinkWidth": 8}, "pcie_link_narrow", "8 PCIe lanes of 16"),
    ],
)
def test_a_card_that_is_held_back_before_the_trial_degrades_it(changed: dict[str, Any], code: str, words: str) -> None:
    (judgement,) = hardware_judgements(nvidia_facts(nvml=Driver(card(**changed))))
    assert (judgement.level, judgement.reason.code) == ("degraded", code) and words in judgement.reason.detail
    assert hardware_judgements(nvidia_facts(nvml=Driver(card()))) == []


def test_the_monitor_reports_what_was_wrong_before_it() -> None:
    driver = Driver(card(RemappedRows=(1, 8, 0, 1), EnforcedPowerLimit=500_000))
    with GpuPhaseMonitor(60.0, driver) as monitor:
        monitor.before = hardware_judgements(nvidia_facts(nvml=driver))
    assert [judgement.reason.code for judgement in monitor.new_errors()] == ["power_limit_lowered", "row_remap_failure"]
    assert "row_remap_failure" in {judgement.reason.code for judgement in monitor.reading().judgements}, "a gang's node tells node 0"


def test_nvlinks_of_a_board_that_are_down_degrade() -> None:
    def judged(*cards: dict[str, Any], states: tuple[int, ...]) -> list[str]:
        driver = Driver(*(own | {"NvLinkState": states} for own in cards))
        return [judgement.reason.code for judgement in hardware_judgements(nvidia_facts(nvml=driver))]

    assert judged(card(0), card(1), states=(1, 1, 1, 1)) == []
    assert judged(card(0), card(1), states=(1, 1, 0, 1)) == ["nvlink_down"] * 2
    assert judged(card(0), card(1), states=(0, 0, 0, 0)) == ["nvlink_down"] * 2, "without the fabric manager"
    assert judged(card(0), states=(0, 0, 0, 0)) == [], "one GPU of a board has nobody to talk to"
    pcie = [card(i, name="NVIDIA H100 PCIe") for i in range(2)]
    assert judged(*pcie, states=(0, 0, 0, 0)) == [], "cards without a bridge have no NVLink"
