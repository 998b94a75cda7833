"""While a file is broken, the last valid declarations are in force."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import zlib
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine, event, select, update
from tests.fakes.trials import CONFIG

from plumbline.archive import open_archive
from plumbline.archive.engine import reading, writing
from plumbline.archive.schema import KeptDeclarations
from plumbline.declarations import BrokenFiles, Budget, DeclarationError, Declarations, last_valid, load, load_in_force, load_upkeep
from plumbline.declarations.providers.provider import Provider
from plumbline.launch.plan import PlanError, RunRequest
from plumbline.workflows.plan import TRAINING
from plumbline.workflows.plan_trials import plan_trials

NOW = datetime.now(timezone.utc)


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


@pytest.mark.fault("a file of a provider is planted in a team server's home", ends="not in force", keeps="the team's declarations")
def test_a_team_server_goes_by_what_the_team_declared(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home" / "providers"
    folder.mkdir(parents=True)
    text = (config / "providers" / "local-1core.yaml").read_text()
    (folder / "planted.yaml").write_text(text.replace("name: local-1core", "name: planted"))
    monkeypatch.setenv("PLUMBLINE_TEAM_SERVER", "true")
    assert "planted" not in load_in_force(keep=True).providers and "local-1core" in load_in_force().providers
    monkeypatch.delenv("PLUMBLINE_TEAM_SERVER")
    assert "planted" in load_in_force().providers


def kept_of(folder: Path) -> KeptDeclarations:
    with open_archive(create=False) as archive, reading(archive.engine) as session:
        (row,) = session.scalars(select(KeptDeclarations).where(KeptDeclarations.folder == str(folder)))
        return row


def changed(config: Path, **values: object) -> None:
    with open_archive(create=False) as archive, writing(archive.engine) as session:
        session.execute(update(KeptDeclarations).where(KeptDeclarations.folder == str(config)).values(values))


def test_nothing_is_kept_of_an_invalid_folder_nor_of_another_one(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_in_force()
    assert not (tmp_path / "home").exists(), "only what parses the DAGs keeps them"
    load_in_force(keep=True)
    other = Path(shutil.copytree(config, tmp_path / "other"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(other))
    spoil(other / "thresholds.yaml")
    with pytest.raises(DeclarationError, match=r"thresholds\.yaml"):
        load_in_force(keep=True)


def test_one_copy_is_kept_known_by_its_bytes(config: Path) -> None:
    file = config / "providers" / "local-1core.yaml"
    load_in_force(keep=True)
    first, state = kept_of(config), file.stat()
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))
    load_in_force(keep=True)
    assert (kept_of(config).sha256, kept_of(config).kept_at) == (first.sha256, first.kept_at), "another time is the same file"
    text = file.read_text()
    file.write_text(text.replace("timeout: 10min", "timeout: 11min"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file.stat().st_size == state.st_size
    load_in_force(keep=True)
    assert kept_of(config).sha256 != first.sha256, "another content of the same size and time is another file"


@pytest.mark.fault(
    "a file of declarations is planted on the shared volume", ends="it is in force at no time", keeps="the copy in the archive"
)
def test_what_lies_on_the_volume_is_never_in_force(config: Path, tmp_path: Path) -> None:
    """As the last version kept them, with a budget a hundred times higher."""
    valid = load_in_force(keep=True)
    planted = tmp_path / "planted"
    shutil.copytree(config, planted)
    (planted / "providers" / "local-1core.yaml").unlink()
    folder = tmp_path / "home" / "declarations"
    folder.mkdir()
    with tarfile.open(folder / f"{sha256(str(config).encode()).hexdigest()[:16]}-{'0' * 16}.tar", "w") as tar:
        tar.add(planted, ".")
    spoil(config / "thresholds.yaml")
    assert load_in_force() == load_in_force(keep=True) == valid


@pytest.mark.parametrize(
    "damage", [{"packed": b""}, {"packed": b"no archive"}, {"sha256": "0" * 64}, {"packed": zlib.compress(b"\0" * 200_000_000)}]
)
def test_a_copy_that_cannot_be_read_leaves_the_error(config: Path, damage: dict[str, object]) -> None:
    load_in_force(keep=True)
    changed(config, **damage)
    spoil(config / "thresholds.yaml")
    with pytest.raises(DeclarationError, match=r"thresholds\.yaml"):
        load_in_force()


def test_a_file_that_breaks_while_it_is_read_does_not_replace_the_last_valid_copy(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid when it was loaded, broken when its bytes were read: in either order nothing but what is valid by itself is kept."""
    valid, file = load_in_force(keep=True), config / "thresholds.yaml"
    kept, text = kept_of(config).sha256, file.read_text()

    def mended_before_it_is_loaded(*of: object, **named: object) -> Declarations:
        file.write_text(text)
        return load(*of, **named)  # type: ignore[arg-type]

    spoil(file)
    with monkeypatch.context() as patched:
        patched.setattr(last_valid, "load", lambda *of, **named: load(*of, **named) if of else mended_before_it_is_loaded())
        load_in_force(keep=True)
    assert kept_of(config).sha256 == kept
    spoil(file)
    assert load_in_force() == valid


@pytest.mark.fault("killed while valid declarations are kept", ends="the copy before it is in force", keeps="that copy, whole")
def test_killed_while_it_is_kept_the_copy_before_it_is_in_force(config: Path) -> None:
    valid, file = load_in_force(keep=True), config / "providers" / "local-1core.yaml"
    kept = kept_of(config).sha256
    file.write_text(file.read_text().replace("timeout: 10min", "timeout: 11min"))
    code = (
        "import os, signal\nfrom sqlalchemy import event\nfrom sqlalchemy.orm import Session\nfrom plumbline.declarations import load_in_force\n"
        "event.listen(Session, 'before_commit', lambda *_: os.kill(os.getpid(), signal.SIGKILL))\nload_in_force(keep=True)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert kept_of(config).sha256 == kept
    spoil(config / "thresholds.yaml")
    file.write_bytes((CONFIG / "providers" / "local-1core.yaml").read_bytes())
    assert load_in_force() == valid


@pytest.mark.fault(
    "the archive's disk is full while declarations are kept", ends="a warning; the DAGs are parsed", keeps="the copy before it"
)
def test_a_full_disk_costs_the_new_copy_only(config: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    load_in_force(keep=True)
    kept, file = kept_of(config).sha256, config / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("timeout: 10min", "timeout: 11min"))

    def full(connection: sqlite3.Connection, _record: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    (config / "traces.txt").write_bytes(os.urandom(2_000_000))
    event.listen(Engine, "connect", full)
    try:
        assert load_in_force(keep=True) == load()
    finally:
        event.remove(Engine, "connect", full)
    assert "could not be kept" in caplog.text and "full" in caplog.text and kept_of(config).sha256 == kept


def another(config: Path, **fields: object) -> None:
    """The provider's file with other fields, valid by itself."""
    file = config / "providers" / "local-1core.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | fields))


@pytest.mark.fault(
    "a declaration is broken, and another one stops a provider or lowers its budget",
    ends="the limit counts at once",
    keeps="the last valid declarations for all else",
)
def test_what_stops_or_limits_counts_at_once_beside_a_broken_file(config: Path) -> None:
    another(config, budget={"usd_per_month": 500.0})
    valid = load_in_force(keep=True)
    spoil(config / "thresholds.yaml")
    another(config, budget={"usd_per_month": 100.0})
    limited = load_in_force()
    assert limited.providers["local-1core"].budget == Budget(usd_per_month=100)
    assert limited.providers["local-1core"].model_copy(update={"budget": None}) == valid.providers["local-1core"].model_copy(
        update={"budget": None}
    )
    another(config, budget={"usd_per_month": 900.0})
    assert load_in_force() == valid, "what costs more waits"
    another(config, enabled=False)
    assert "local-1core" not in {p.name for p in load_in_force().enabled_providers()}
    another(config, enabled=True, region=7)
    assert load_in_force() == valid, "a file that is not valid by itself says nothing"
    (config / "providers" / "local-1core.yaml").unlink()
    assert "local-1core" not in {p.name for p in load_in_force().enabled_providers()}
    assert set(load_in_force().providers) == set(valid.providers), "what it measured keeps its terms"


def test_a_workload_whose_file_is_gone_is_planned_no_more(config: Path) -> None:
    valid = load_in_force(keep=True)
    provider = valid.providers["local-1core"]
    name = valid.workloads_for(provider, "training")[0].name
    spoil(config / "thresholds.yaml")
    (config / "workloads" / "training" / f"{name}.yaml").unlink()
    now = load_in_force()
    assert name in now.workloads and name not in {w.name for w in now.workloads_for(now.providers["local-1core"])}


@pytest.mark.fault(
    "a declaration stays broken",
    ends="after start_while_broken no trial starts; each plan says since when",
    keeps="running trials and results",
)
def test_after_the_declared_time_no_trial_starts(config: Path) -> None:
    (config / "upkeep.yaml").write_text("start_while_broken: 2d\n")
    assert load_in_force(keep=True).why_no_trial_starts(NOW) is None
    spoil(config / "thresholds.yaml")
    assert load_in_force().broken == BrokenFiles(load_in_force().broken.problems), "only what parses the DAGs notes it"
    since = load_in_force(keep=True).broken.since
    broken = load_in_force()
    assert broken.broken.since == since and broken.why_no_trial_starts(since + timedelta(days=1.9)) is None
    why = broken.why_no_trial_starts(since + timedelta(days=2))
    assert "thresholds.yaml:" in why and "start_while_broken" in why
    changed(config, broken_since=NOW + timedelta(days=3650))
    assert load_in_force().why_no_trial_starts(NOW) is not None, "a time to come keeps nothing in force"
    changed(config, broken_since=NOW - timedelta(days=3))
    provider = broken.enabled_providers()[0].name
    with pytest.raises(PlanError, match="no trial starts"):
        plan_trials(provider, TRAINING, RunRequest("2026-11", "monthly"))
    (config / "thresholds.yaml").write_text((CONFIG / "thresholds.yaml").read_text())
    load_in_force(keep=True)
    spoil(config / "thresholds.yaml")
    assert load_in_force().broken.since is None, "the next time begins again"


@pytest.mark.fault(
    "the archive is not reachable while a declaration is broken", ends="refused: the broken file", keeps="the copy, for later"
)
def test_without_the_archive_the_broken_file_is_the_error(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = load_in_force(keep=True)
    spoil(config / "thresholds.yaml")
    with monkeypatch.context() as away:
        away.setenv("PLUMBLINE_ARCHIVE_URL", "postgresql://nowhere@127.0.0.1:9/none")
        with pytest.raises(DeclarationError, match=r"thresholds\.yaml"):
            load_in_force()
    assert load_in_force() == valid


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
