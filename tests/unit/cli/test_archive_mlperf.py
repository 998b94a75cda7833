"""`plumbline archive import-mlperf` on an excerpt of the published results."""

from __future__ import annotations

from pathlib import Path

from plumbline.archive import open_archive

EXCERPT = Path(__file__).parents[2] / "data/mlperf/training_excerpt.csv"


def test_every_row_is_accounted_for_and_again_nothing_changes(plumbline, said):
    found, code = said("archive", "import-mlperf", str(EXCERPT))
    assert code == 0
    assert (found["rows"], found["imported"], found["valid"], found["invalid"], found["rejected"]) == (31, 31, 30, 1, [])
    assert found["campaigns"] == ["mlperf-training-v4.1", "mlperf-training-v5.0"]
    again, _ = said("archive", "import-mlperf", str(EXCERPT))
    assert (again["imported"], again["unchanged"]) == (0, 31)
    assert "31 rows: 0 imported, 31 known already, 0 kept out, 0 rejected" in plumbline("archive", "import-mlperf", str(EXCERPT)).stdout
    with open_archive() as archive:
        assert {s.source for s in archive.series()} == {"imported"}
        assert archive.verify() == []


def test_a_bad_row_is_named_with_its_line_and_the_others_are_imported(tmp_path, plumbline):
    lines = EXCERPT.read_text().splitlines()
    file = tmp_path / "runs.csv"
    file.write_text("\n".join([lines[0], lines[1].replace("4.5532", "soon"), *lines[2:]]))
    told = plumbline("archive", "import-mlperf", str(file)).stdout
    assert 'runs.csv:2  minutes_to_train: "soon" is not a positive number' in told
    assert "31 rows: 30 imported" in told


def test_a_run_with_other_numbers_than_the_archives_is_kept_out(tmp_path, plumbline):
    plumbline("archive", "import-mlperf", str(EXCERPT))
    file = tmp_path / "runs.csv"
    file.write_text(EXCERPT.read_text().replace("4.5532", "1.0"))
    told = plumbline("archive", "import-mlperf", str(file)).stdout
    assert "30 known already, 1 kept out" in told and "with other values, which stay" in told


def test_a_round_that_is_not_known_is_dated_by_hand(tmp_path, plumbline, said):
    file = tmp_path / "runs.csv"
    file.write_text(EXCERPT.read_text().replace("v5.0,", "v6.0,"))
    assert said("archive", "import-mlperf", str(file))[0]["imported"] == 11
    found, _ = said("archive", "import-mlperf", str(file), "--round", "v6.0=2026-06-03")
    assert (found["imported"], found["unchanged"]) == (20, 11)
    result = plumbline("archive", "import-mlperf", str(file), "--round", "v6.0")
    assert result.exit_code == 2 and "expected a name and a date such as v6.0=2026-06-03" in result.stderr


def test_another_file_is_said_to_be_none(tmp_path, plumbline):
    file = tmp_path / "runs.csv"
    file.write_text("a,b\n1,2\n")
    result = plumbline("archive", "import-mlperf", str(file))
    assert result.exit_code == 2 and "the file has no column round" in result.stderr
    file.write_bytes(b"\xd4\xff" * 10)
    result = plumbline("archive", "import-mlperf", str(file))
    assert result.exit_code == 2 and "runs.csv is not text in UTF-8" in result.stderr


def test_an_imported_campaign_is_never_reviewed_scored_or_replayed(plumbline):
    import pytest

    from plumbline.workflows.review import review_campaign

    plumbline("archive", "import-mlperf", str(EXCERPT))
    with pytest.raises(LookupError, match="imported results only"):
        review_campaign("mlperf-training-v4.1")
    result = plumbline("scorecard", "mlperf-training-v4.1")
    assert result.exit_code == 2 and "imported results only" in result.stderr
    result = plumbline("scorecard")
    assert result.exit_code == 2 and "no campaign yet" in result.stderr
    with open_archive() as archive:
        name = archive.trials("mlperf-training-v4.1")[0].trial_id
    result = plumbline("replay", name)
    assert result.exit_code == 2 and "is imported" in result.stderr
