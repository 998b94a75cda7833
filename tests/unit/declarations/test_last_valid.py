"""While a file is broken, the last valid declarations are in force."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG

from plumbline.declarations import DeclarationError, load, load_in_force, load_upkeep
from plumbline.declarations.providers.provider import Provider


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    return folder


def spoil(file: Path) -> None:
    file.write_text(file.read_text() + "\nnonsense: [\n")


BREAKS = {
    "a provider": lambda config: spoil(config / "providers" / "local-1core.yaml"),
    "a workload": lambda config: spoil(config / "workloads" / "training" / "gpt-tiny-cpu.yaml"),
    "the thresholds": lambda config: spoil(config / "thresholds.yaml"),
    "the alerts": lambda config: spoil(config / "alerts.yaml"),
    "the upkeep": lambda config: spoil(config / "upkeep.yaml"),
    "a workload is gone that a provider names": lambda config: (file := config / "providers" / "local-1core.yaml").write_text(
        file.read_text() + "\nworkloads: [gone]\n"
    ),
    "the thresholds are gone": lambda config: (config / "thresholds.yaml").unlink(),
    "the folder is gone": shutil.rmtree,
    "no text": lambda config: (config / "teams" / "x.yaml").write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.fault(
    "a declaration is broken while campaigns run", ends="the last valid declarations are in force", keeps="every DAG and its runs"
)
@pytest.mark.parametrize("broken", BREAKS)
def test_the_last_valid_declarations_are_in_force_and_the_log_names_the_file(
    config: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    valid = load_in_force(keep=True)
    BREAKS[broken](config)
    with pytest.raises(DeclarationError) as refused:
        load()
    with caplog.at_level(logging.ERROR):
        assert load_in_force() == load_in_force(keep=True) == valid
    assert str(refused.value) in caplog.text
    assert load_upkeep() == valid.upkeep


def test_what_was_repaired_is_in_force_at_once(config: Path) -> None:
    load_in_force(keep=True)
    file = config / "providers" / "local-1core.yaml"
    text = file.read_text()
    spoil(file)
    load_in_force(keep=True)
    file.write_text(text.replace("timeout: 10min", "timeout: 11min"))
    launcher = load_in_force(keep=True).providers["local-1core"].launcher
    assert launcher.timeout == 660
    spoil(file)
    assert load_in_force().providers["local-1core"].launcher == launcher, "and is kept"


def test_generated_providers_stay(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "providers"
    folder.mkdir(parents=True)
    text = (config / "providers" / "local-1core.yaml").read_text()
    (folder / "this-machine.yaml").write_text(text.replace("name: local-1core", "name: this-machine"))
    valid = load_in_force(keep=True)
    assert isinstance(valid.providers["this-machine"], Provider)
    spoil(config / "thresholds.yaml")
    assert load_in_force().providers == valid.providers


def test_nothing_is_kept_of_an_invalid_folder_nor_of_another_one(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_in_force()
    assert not (tmp_path / "home").exists(), "only what parses the DAGs keeps them"
    load_in_force(keep=True)
    other = Path(shutil.copytree(config, tmp_path / "other"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(other))
    spoil(other / "thresholds.yaml")
    with pytest.raises(DeclarationError, match=r"thresholds\.yaml"):
        load_in_force(keep=True)


def test_one_copy_is_kept_and_only_its_owner_reads_the_contracts_prices(config: Path, tmp_path: Path) -> None:
    for minutes in (11, 12):
        file = config / "providers" / "local-1core.yaml"
        file.write_text(file.read_text() + f"# {minutes}\n")
        load_in_force(keep=True)
        load_in_force(keep=True)
    (kept,) = (tmp_path / "home" / "declarations").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"no tar", b"\0" * 10240])
def test_a_copy_that_cannot_be_read_leaves_the_error(config: Path, tmp_path: Path, content: bytes) -> None:
    load_in_force(keep=True)
    (kept,) = (tmp_path / "home" / "declarations").iterdir()
    kept.write_bytes(content)
    spoil(config / "thresholds.yaml")
    with pytest.raises(DeclarationError, match=r"thresholds\.yaml"):
        load_in_force()


def test_a_home_that_cannot_be_written_costs_the_copy_only(config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").write_text("a file")
    assert load_in_force(keep=True) == load()
    assert "could not be kept" in caplog.text


def test_links_of_a_mounted_folder_are_kept_as_files(config: Path, tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: each file is a link into a folder that is replaced."""
    data = Path(shutil.move(config / "teams", tmp_path / "data"))
    (config / "teams").mkdir()
    for file in data.iterdir():
        (config / "teams" / file.name).symlink_to(file)
    valid = load_in_force(keep=True)
    assert valid.teams
    shutil.rmtree(data)
    spoil(config / "thresholds.yaml")
    assert load_in_force() == valid


def test_a_file_that_is_replaced_while_the_folder_is_listed_costs_the_copy_only(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Replaced(type(config)):  # type: ignore[misc]
        """A file that was there when the folder was read, and no longer when it is looked at."""

        def is_file(self) -> bool:
            return True

    monkeypatch.setattr(Path, "rglob", lambda self, _: [Replaced(self / "providers" / "gone.yaml")])
    assert load_in_force(keep=True) == load()
