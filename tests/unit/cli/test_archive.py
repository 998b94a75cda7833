"""`plumbline archive`: exit codes, and the same answers for people and for scripts."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text
from tests.data.result_documents import trial
from tests.fakes.next_schema import newer_program
from typer.testing import Result

from plumbline.archive import QuarantineRecord, open_archive
from plumbline.archive.migrate import head

Said = Callable[..., tuple[Any, int]]


def test_verify_says_what_is_broken_and_exits_with_4(campaigns: Callable[..., None], said: Said, plumbline: Callable[..., Result]) -> None:
    campaigns(a=[0.1])
    assert said("archive", "verify", "--quick") == (
        {"sound": True, "evidence_checked": False, "problems": [], "secrets": [], "files_elsewhere": 0},
        0,
    )
    broken, code = said("archive", "verify")
    assert code == 4
    assert all("is missing" in problem for problem in broken["problems"])
    with open_archive() as archive, archive.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER trials_no_update"))
        connection.execute(text("UPDATE trials SET spec_hash = 'x'"))
    result = plumbline("archive", "verify", "--quick")
    assert result.exit_code == 4
    assert "spec_hash is x" in result.stdout


def test_verify_names_a_secret_without_it_and_exits_with_1(
    campaigns: Callable[..., None], said: Said, plumbline: Callable[..., Result]
) -> None:
    campaigns(a=[0.1])
    with open_archive() as archive, archive.engine.begin() as connection:
        connection.execute(text("UPDATE campaigns SET reason = :reason"), {"reason": "hf_" + "q" * 34})
        connection.execute(text("DELETE FROM evidence"))
    found, code = said("archive", "verify", "--quick")
    assert found["secrets"][0].partition(": ")[2].startswith("reason holds a Hugging Face token; revoke it where it was issued")
    result = plumbline("archive", "verify", "--quick")
    assert "1 secret in it, which all who read it can read" in result.stdout and "hf_qq" not in result.stdout
    assert code == result.exit_code == (4 if found["problems"] else 1)


def test_export_and_import(
    campaigns: Callable[..., None], said: Said, tmp_path: Path, monkeypatch: Any, plumbline: Callable[..., Result]
) -> None:
    campaigns(a=[0.1, 0.1], b=[0.2])
    exported, code = said("archive", "export", str(tmp_path / "out"))
    assert (code, [(e["campaign_id"], e["trials"]) for e in exported]) == (0, [("a", 2), ("b", 1)])
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "other"))
    taken, code = said("archive", "import", str(tmp_path / "out"), "--campaign", "a")
    assert (code, [(t["campaign_id"], t["new"], t["refused"]) for t in taken]) == (0, [("a", 2, None)])
    again, code = said("archive", "export", str(tmp_path / "again"))
    assert [e["content_hash"] for e in again] == [exported[0]["content_hash"]]
    assert plumbline("archive", "export", str(tmp_path / "again")).exit_code == 2
    assert plumbline("archive", "import", str(tmp_path / "nothing")).exit_code == 2
    campaigns(b=[0.3])
    refused = plumbline("archive", "import", str(tmp_path / "out"))
    assert refused.exit_code == 1
    assert "b" in refused.stdout.split()


def test_quarantine(home: Path, said: Said, plumbline: Callable[..., Result]) -> None:
    open_archive().close()
    assert said("archive", "quarantine", "list") == ([], 0)
    kept = home / "results" / "quarantine" / "2025-11" / "x" / "attempt-1" / "result.json"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"{")
    with open_archive() as archive:
        archive.quarantine(QuarantineRecord("2025-11", "x", 1, kept.as_uri(), hashlib.sha256(b"{").hexdigest(), "cut short"))
    (held,), code = said("archive", "quarantine", "list")
    assert (held["reason"], held["state"], code) == ("cut short", "kept", 0)
    assert "cut short" in plumbline("archive", "quarantine", "show", held["quarantine_id"]).stdout
    (tried,), code = said("archive", "quarantine", "retry")
    assert (tried["attempt"], code) == (None, 1)
    assert "JSON" in tried["reason"]
    assert plumbline("archive", "quarantine", "show", "nothing").exit_code == 2
    assert plumbline("archive", "quarantine", "retry", "nothing").exit_code == 2


def test_correct(campaigns: Callable[..., None], said: Said, plumbline: Callable[..., Result]) -> None:
    campaigns(a=[0.1])
    name = trial(campaign="a").trial_id
    assert said("archive", "correct", name, "--reject", "--why", "a neighbour") == ({"trial_id": name, "corrects": 1, "attempt": 2}, 0)
    with open_archive() as archive:
        assert archive.campaigns()[0].outcomes.usable == 0
    neither = plumbline("archive", "correct", name, "--why", "a neighbour")
    assert neither.exit_code == 2 and "--accept" in neither.stderr and "--reject" in neither.stderr
    same = plumbline("archive", "correct", name, "--attempt", "2", "--reject", "--why", "a neighbour")
    assert same.exit_code == 2 and name in same.stderr and "reject" in same.stderr
    unknown = plumbline("archive", "correct", name, "--attempt", "7", "--reject", "--why", "x")
    assert unknown.exit_code == 2 and "1, 2" in unknown.stderr
    assert 'no trial "nope"' in plumbline("archive", "correct", "nope", "--reject", "--why", "x").stderr
    again = plumbline("archive", "correct", name, "--reject", "--why", "a neighbour")
    assert again.exit_code == 2
    assert "was corrected already" in again.stderr


def test_migrate(home: Path, said: Said, plumbline: Callable[..., Result], tmp_path: Path) -> None:
    open_archive().close()
    older = head()
    assert said("archive", "migrate") == ({"before": older, "after": older}, 0)
    with newer_program(tmp_path) as newer:
        assert said("archive", "migrate") == ({"before": older, "after": newer}, 0)


def test_backup_and_restore(campaigns: Callable[..., None], said: Said, plumbline: Callable[..., Result], tmp_path: Path) -> None:
    campaigns(a=[0.1])
    file = tmp_path / "copy"
    made, code = said("archive", "backup", str(file))
    assert (made["schema"], made["bytes"], code) == (head(), file.stat().st_size, 0)
    assert plumbline("archive", "backup", str(file)).exit_code == 1
    campaigns(b=[0.1])
    assert "give --replace" in plumbline("archive", "restore", str(file)).stderr
    restored, code = said("archive", "restore", str(file), "--replace")
    assert (restored["problems"], code) == ([], 0)
    with open_archive() as archive:
        assert [c.campaign_id for c in archive.campaigns()] == ["a"]


def test_nothing_is_restored_under_a_running_airflow(home: Path, said: Said, plumbline: Callable[..., Result], tmp_path: Path) -> None:
    open_archive().close()
    assert said("archive", "backup", str(tmp_path / "copy"))[1] == 0
    (home / "airflow").mkdir()
    with (home / "airflow" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = plumbline("archive", "restore", str(tmp_path / "copy"), "--replace")
    assert refused.exit_code == 1 and "Airflow" in refused.stderr


def test_size(campaigns: Callable[..., None], said: Said, plumbline: Callable[..., Result]) -> None:
    campaigns(a=[0.1])
    found, code = said("archive", "size")
    assert code == 0
    assert {"tables", "store", "evidence", "quarantine", "reports", "data_docs", "logs"} <= {part["part"] for part in found["parts"]}
    assert next(t for t in found["tables"] if t["table"] == "trials")["rows"] == 1
    assert "What grows" in plumbline("archive", "size").stdout
