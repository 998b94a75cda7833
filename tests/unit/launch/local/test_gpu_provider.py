"""This machine's GPU is a provider where NVML or AMD SMI finds one that PyTorch can use, and none where they do not; all processes read one file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.amd_smi import AmdSmi
from tests.fakes.amd_smi import Card as AmdCard
from tests.fakes.nvml import Card, Nvml
from tests.fakes.trials import CONFIG, PLANNED_AT, planned

from plumbline.airflow.schedules import schedule_of
from plumbline.declarations import LocalLauncher, installation_paths, load
from plumbline.launch.local.gpu_provider import GPU_WORKLOADS, PROVIDER_NAME, TorchInstallation, refresh_declaration
from plumbline.launch.monthly_estimate import estimate_month
from plumbline.launch.plan import RunRequest

CUDA = TorchInstallation("2.13.0+cu130", "13.0", 1)
ROCM = TorchInstallation("2.13.0+rocm7.1", None, 2, "7.1.25424")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    for name in ("PLUMBLINE_CONFIG", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def look(*cards: Card, torch: TorchInstallation = CUDA, refuses: str | None = None) -> str | None:
    return refresh_declaration(load(installation_paths().config), nvml=Nvml(*cards, refuses=refuses), torch=torch)


def test_a_gpu_is_a_local_provider_that_trains_and_serves_without_a_cluster() -> None:
    assert look(Card()) is None
    provider = load().providers[PROVIDER_NAME]
    assert provider.enabled and provider.accelerator.count == 1 and provider.accelerator.product == "NVIDIA-H100-80GB-HBM3"
    assert isinstance(provider.launcher, LocalLauncher) and provider.pool == load().providers["local-2core"].pool, "never at once"
    monthly = load().monthly_workloads(provider)
    assert {w.name for w in monthly} == set(GPU_WORKLOADS) and {w.kind for w in monthly} == {"training", "inference"}
    assert schedule_of(load(), provider) is not None
    month = estimate_month(load(), provider, PLANNED_AT.date())
    assert month.trials == 4 and month.use.usd is None, "nobody declared what this machine costs"
    trials = planned(load(), RunRequest("2026-11", "monthly"))
    assert len(trials) == 12 and sum(t.provider.name == PROVIDER_NAME for t in trials) == 4


def test_several_gpus_are_one_provider_and_different_ones_have_no_product() -> None:
    look(Card(), Card())
    assert (load().providers[PROVIDER_NAME].accelerator.count, load().providers[PROVIDER_NAME].instance_type) == (
        2,
        "host-2xNVIDIA-H100-80GB-HBM3",
    )
    look(Card(), Card(name="NVIDIA A100"))
    assert load().providers[PROVIDER_NAME].accelerator.product is None


def test_without_a_gpu_everything_is_as_declared(home: Path) -> None:
    assert look() is None and look(refuses="Driver Not Loaded") is None
    assert not (home / "providers").exists()
    assert load() == load(CONFIG)
    assert len(planned(load(), RunRequest("2026-11", "monthly"))) == 8


def test_a_gpu_that_is_gone_is_a_provider_no_more_and_it_is_said() -> None:
    look(Card())
    assert PROVIDER_NAME in load().providers
    assert "is gone" in str(look())
    assert PROVIDER_NAME not in load().providers
    assert look() is None, "once"


def test_hidden_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "shows none of 1 GPUs" in str(look(Card()))
    assert PROVIDER_NAME not in load().providers


def test_a_driver_that_refuses_is_told_with_its_remedy() -> None:
    class Mismatch(Nvml):
        def nvmlInit(self) -> None:
            error = self.NVMLError("Driver/library version mismatch")
            error.value = 18  # type: ignore[attr-defined]
            raise error

    said = refresh_declaration(load(installation_paths().config), nvml=Mismatch(), torch=CUDA)
    assert said is not None and "not measured" in said and "reload the driver" in said


def test_a_mig_instance_is_declared_as_one_and_said_to_be_no_whole_card() -> None:
    class Cut(Nvml):
        def nvmlDeviceGetMigMode(self, card: Card) -> tuple[int, int]:
            return 1, 1

    said = refresh_declaration(load(installation_paths().config), nvml=Cut(Card()), torch=CUDA)
    assert said is None
    accelerator = load().providers[PROVIDER_NAME].accelerator
    assert (accelerator.product, accelerator.count) == ("NVIDIA-H100-80GB-HBM3-MIG", 1)
    assert "MIG" in load().providers[PROVIDER_NAME].description and "no whole card" in load().providers[PROVIDER_NAME].description


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        (TorchInstallation("2.13.0+cpu", None, 0), "built without CUDA"),
        (TorchInstallation("2.13.0+cu130", "13.0", 0), "finds no usable GPU"),
    ],
    ids=["no CUDA", "old driver"],
)
def test_a_gpu_that_pytorch_cannot_use_is_skipped_and_it_is_said_why(torch: TorchInstallation, why: str) -> None:
    look(Card())
    said = look(Card(), torch=torch)
    assert said is not None and "1 × NVIDIA-H100-80GB-HBM3" in said and why in said
    assert PROVIDER_NAME not in load().providers


def test_what_people_declare_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look(Card())
    written = (installation_paths().generated_providers / f"{PROVIDER_NAME}.yaml").read_text()
    own = tmp_path / "config"
    shutil.copytree(CONFIG, own)
    (own / "providers" / f"{PROVIDER_NAME}.yaml").write_text("enabled: false\n" + written)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(own))
    assert not load().providers[PROVIDER_NAME].enabled
    assert look(Card()) is None and not (installation_paths().generated_providers / f"{PROVIDER_NAME}.yaml").exists()


def test_declarations_without_its_workloads_have_no_such_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look(Card())
    bare = tmp_path / "config"
    shutil.copytree(CONFIG, bare)
    (bare / "workloads" / "training" / "gpt-small-gpu.yaml").unlink()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(bare))
    assert PROVIDER_NAME not in load().providers
    assert "gpt-small-gpu" in str(look(Card()))


def look_at_amd(root: Path, *cards: AmdCard, torch: TorchInstallation = ROCM, nvml: Nvml | None = None) -> str | None:
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev" / "kfd").touch()
    nvidia = nvml or Nvml(refuses="Driver Not Loaded")
    return refresh_declaration(load(installation_paths().config), nvml=nvidia, amdsmi=AmdSmi(*cards), torch=torch, root=root)


def test_an_amd_gpu_is_found_by_amd_smi_and_measures_the_same_workloads(tmp_path: Path) -> None:
    assert look_at_amd(tmp_path, AmdCard(), AmdCard()) is None
    provider = load().providers[PROVIDER_NAME]
    assert (provider.accelerator.kind, provider.accelerator.count, provider.accelerator.product) == ("amd", 2, "AMD-Instinct-MI300X")
    assert "AMD SMI" in provider.description
    assert {w.name for w in load().monthly_workloads(provider)} == set(GPU_WORKLOADS)
    assert sum(t.provider.name == PROVIDER_NAME for t in planned(load(), RunRequest("2026-11", "monthly"))) == 4


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        (CUDA, "built without ROCm"),
        (TorchInstallation("2.13.0+cpu", None, 0), "built without ROCm"),
        (
            TorchInstallation("2.13.0+rocm7.1", None, 0, "7.1"),
            "finds no usable GPU; expected a driver for that ROCm version or newer, and",
        ),
    ],
    ids=["CUDA", "CPU", "no access"],
)
def test_an_amd_gpu_that_pytorch_cannot_use_is_skipped_and_it_is_said_why(tmp_path: Path, torch: TorchInstallation, why: str) -> None:
    said = look_at_amd(tmp_path, AmdCard(), torch=torch)
    assert said is not None and "1 × AMD-Instinct-MI300X" in said and why in said
    assert PROVIDER_NAME not in load().providers


def test_beside_an_nvidia_gpu_an_amd_one_is_not_looked_for(tmp_path: Path) -> None:
    look_at_amd(tmp_path, AmdCard(), torch=CUDA, nvml=Nvml(Card()))
    assert load().providers[PROVIDER_NAME].accelerator.kind == "nvidia"


def test_without_the_kernels_driver_for_amd_nothing_is_found(tmp_path: Path) -> None:
    assert refresh_declaration(load(installation_paths().config), nvml=Nvml(), amdsmi=AmdSmi(AmdCard()), torch=ROCM, root=tmp_path) is None
    assert PROVIDER_NAME not in load().providers
