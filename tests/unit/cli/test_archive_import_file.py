"""`plumbline archive import FILE --from TOOL`: recorded once, refused whole, never among measured results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, inference_workload, trial
from tests.unit.formats.test_tool_files import DATA, FILES
from typer.testing import Result

from plumbline.archive import open_archive

WHERE = ("--provider", "local-2core", "--workload", "chat-cpu")
DATED = {"genai-perf", "perf_analyzer", "inference-perf", "sglang"}
"""Tools whose files do not say when they measured."""


def words(tool: str, *more: str) -> list[str]:
    """The command for the tool's file."""
    dated = ("--date", "2026-11-23") if tool in DATED else ()
    return ["archive", "import", str(DATA / FILES[tool]), "--from", tool, *WHERE, *dated, *more]


@pytest.mark.parametrize("tool", FILES)
def test_a_file_of_each_tool_is_imported_once(tool: str, plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    found, code = said(*words(tool))
    runs = len(found["runs"])
    assert (code, found["imported"], found["unchanged"], found["kept_out"]) == (0, runs, 0, [])
    assert found["source"]["sha256"] == hashlib.sha256((DATA / FILES[tool]).read_bytes()).hexdigest()
    assert (found["source"]["name"], found["source"]["tool"]) == (FILES[tool], tool)
    assert {run["measured_on"] for run in found["runs"]} == {"2026-11-23"}
    again, _ = said(*words(tool))
    assert (again["imported"], again["unchanged"]) == (0, runs)
    assert plumbline(*words(tool)).exit_code == 0
    with open_archive() as archive:
        assert {(s.source, s.provider, s.workload) for s in archive.series()} == {("imported", "local-2core", "chat-cpu")}
        assert len(archive.trials()) == runs and archive.verify() == []
        result = archive.imported(found["runs"][0]["trial_id"])
    assert result is not None and result.source is not None
    assert [gap.model_dump(mode="json") for gap in result.gaps] == found["runs"][0]["gaps"]


def test_an_import_under_a_wrong_name_is_listed_and_forgotten(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    said(*words("aiperf"))
    ((listed,), _) = said("archive", "imports")
    assert (listed["provider"], listed["file"], listed["runs"]) == ("local-2core", FILES["aiperf"], 1)
    assert plumbline("archive", "imports").exit_code == 0
    assert plumbline("archive", "forget-import", listed["import_id"]).exit_code == 2
    (gone, code) = said("archive", "forget-import", listed["import_id"], "--why", "wrong provider")
    assert (gone, code) == ([listed], 0)
    assert plumbline("archive", "forget-import", listed["import_id"], "--why", "wrong provider").exit_code == 2


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (lambda file: ["--from", "wrk", *WHERE], "expected one of aiperf"),
        (lambda file: ["--from", "aiperf", *WHERE], "aiperf_version"),
        (lambda file: ["--from", "vllm-bench", "--provider", "nowhere", "--workload", "chat-cpu"], '"nowhere"; expected one of'),
        (lambda file: ["--from", "vllm-bench", "--provider", "local-2core", "--workload", "nothing"], '"nothing"; expected one of'),
        (lambda file: ["--from", "vllm-bench", "--provider", "local-2core", "--workload", "gpt-tiny-cpu"], "kind inference"),
        (lambda file: ["--from", "vllm-bench", "--provider", "local-2core"], "--workload"),
        (lambda file: ["--from", "vllm-bench", *WHERE, "--date", "2026-11-22"], "2026-11-23"),
        (lambda file: ["--from", "vllm-bench", *WHERE, "--date", "today"], "--date"),
        (lambda file: ["--from", "vllm-bench", *WHERE, "--campaign", "2026-11"], "--campaign"),
        (lambda file: [], "--from"),
        (lambda file: [*WHERE], "--provider"),
    ],
)
def test_a_wrong_import_is_refused_and_writes_nothing(
    command: Callable[[Path], list[str]], field: str, plumbline: Callable[..., Result]
) -> None:
    file = DATA / FILES["vllm-bench"]
    result = plumbline("archive", "import", str(file), *command(file))
    assert result.exit_code == 2 and field in result.stderr
    with open_archive() as archive:
        assert archive.trials() == [] and archive.campaigns() == []


def test_a_cut_file_and_a_missing_one_are_refused(tmp_path: Path, plumbline: Callable[..., Result]) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes((DATA / FILES["guidellm"]).read_bytes()[:9000])
    for file in (cut, tmp_path / "none.json", tmp_path):
        result = plumbline("archive", "import", str(file), "--from", "guidellm", *WHERE)
        assert result.exit_code == 2 and file.name in result.stderr
    with open_archive() as archive:
        assert archive.trials() == []


def test_a_file_without_a_day_needs_one_and_keeps_its_first(said: Callable[..., Any], plumbline: Callable[..., Result]) -> None:
    file = str(DATA / FILES["perf_analyzer"])
    refused = plumbline("archive", "import", file, "--from", "perf_analyzer", *WHERE)
    assert refused.exit_code == 2 and "--date" in refused.stderr
    said("archive", "import", file, "--from", "perf_analyzer", *WHERE, "--date", "2026-11-23")
    other, _ = said("archive", "import", file, "--from", "perf_analyzer", *WHERE, "--date", "2026-11-01")
    assert (other["imported"], other["unchanged"], len(other["kept_out"])) == (0, 0, 2)


def test_it_is_never_scored_and_travels_with_its_file(
    tmp_path: Path, plumbline: Callable[..., Result], said: Callable[..., Any], campaigns: Callable[..., None]
) -> None:
    campaigns(**{"2026-11": [0.1, 0.1]})
    with open_archive() as archive:
        measured = [s.series_key for s in archive.series()]
    found, _ = said(*words("aiperf"))
    assert plumbline("scorecard", found["campaign"]).exit_code == 2
    with open_archive() as archive:
        assert archive.newest_campaign() == "2026-11"
        assert [s.series_key for s in archive.series() if s.source == "measured"] == measured
        assert archive.providers_of("chat-cpu", 9) == []
        archive.export(tmp_path / "bundle")
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.import_(tmp_path / "bundle")
        assert [r.source.sha256 for r in other.imported_files("chat-cpu") if r.source] == [found["source"]["sha256"]]
        assert [p for p in other.verify(evidence=False) if "aiperf" in p] == []


def test_a_scorecard_has_the_imported_runs_of_its_workloads_beside_it(plumbline: Callable[..., Result], said: Callable[..., Any]) -> None:
    with open_archive() as archive:
        archive.record(document(trial("inference", workload=inference_workload(name="chat-cpu"))), uri="file:///x")
        campaign = archive.campaigns()[0].campaign_id
    before, _ = said("scorecard", campaign)
    said(*words("aiperf"))
    after, _ = said("scorecard", campaign)
    (run,) = after["imported"]
    assert (run["provider"], run["workload"], before["imported"]) == ("local-2core", "chat-cpu", [])
    assert {"closed_loop", "coordinated_omission"} <= {code for code, _ in run["gaps"]}
    assert {key: value for key, value in after.items() if key != "imported"} == {k: v for k, v in before.items() if k != "imported"}
    shown = plumbline("scorecard", campaign).output
    assert "closed_loop" in shown and run["tool"] in shown
    assert run["gaps"][-1][1].split()[0] in plumbline("scorecard", campaign, "-v").output
