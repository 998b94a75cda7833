"""Every row of a file becomes a result or is rejected with its line and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pytest

from plumbline.formats.mlperf_training import COLUMNS
from plumbline.formats.reading.published_table import PUBLISHED_TABLES
from plumbline.results.published_tables import ParsedRuns, read_table

EXCERPT = Path(__file__).parents[2] / "data/mlperf/training_excerpt.csv"
ROW = {
    "round": "v5.0", "submitter": "Example Systems", "system_id": "EX_8x", "system_name": "EX 8x", "accelerator": "NVIDIA H200-SXM5-141GB",
    "nodes": "2", "accel_per_node": "8", "benchmark": "llama2_70b_lora", "run": "0", "minutes_to_train": "10.5", "status": "success",
    "global_batch": "8", "cuda": "12.8", "driver": "525.125 .06 ", "nccl": "v2.28.3-1", "framework": "PyTorch", "availability": "Preview",
}  # fmt: skip


def parse_mlperf(lines: Iterable[str], published: dict[str, date] | None = None) -> ParsedRuns:
    return read_table(PUBLISHED_TABLES["mlperf-training"], lines, published)


def file(*rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> io.StringIO:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    text.seek(0)
    return text


def test_every_row_of_a_published_file_is_accounted_for() -> None:
    with EXCERPT.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    with EXCERPT.open(newline="") as lines:
        found = parse_mlperf(lines)
    assert len(found.results) == len(rows) == 31 and found.rejected == ()
    assert [dict(r.original) for r in found.results] == rows, "the publisher's words are kept"
    assert {r.campaign_id for r in found.results} == {"mlperf-training-v4.1", "mlperf-training-v5.0"}
    assert len({r.trial_id for r in found.results}) == 31
    supermicro = {r.series_key for r in found.results if r.provider == "supermicro"}
    assert len(supermicro) == 1, "two systems of one shape, and two rounds, are one series"


def test_a_row_becomes_a_trial_with_the_harnesss_names_of_facts() -> None:
    (found,) = parse_mlperf(file(ROW)).results
    assert found.series_key == (
        "training/mlperf-llama2-70b-lora-batch-8@1/mlperf-training/as-submitted/example-systems/unstated/2x8-nvidia-h200-sxm5-141gb"
    )
    assert found.environment.facts == {
        "gpu.product": "NVIDIA H200-SXM5-141GB", "gpu.count": 8, "training.nodes": 2, "host.product": "EX 8x",
        "framework.release": "PyTorch", "location.availability": "Preview",
        "driver.version": "525.125.06", "cuda.version": "12.8", "nccl.version": "2.28.3-1",
    }  # fmt: skip
    (metric,) = found.metrics
    assert (metric.metric, metric.value, metric.unit, found.repeat, found.system) == ("time_to_train", 630.0, "s", 0, "ex-8x")
    assert found.published_at.date() == date(2025, 6, 4)


def test_what_a_submitter_left_out_is_absent_and_not_empty() -> None:
    (found,) = parse_mlperf(file({**ROW, "driver": "", "cuda": "", "nccl": ""})).results
    assert not {"driver.version", "cuda.version", "nccl.version"} & found.environment.facts.keys()


def test_a_run_that_did_not_reach_its_target_has_no_time() -> None:
    (found,) = parse_mlperf(file({**ROW, "status": "aborted"})).results
    assert found.validity.status == "invalid" and found.validity.reasons[0].code == "target_not_reached"
    assert found.metrics[0].value is None


def test_another_batch_is_another_series_and_a_round_another_campaign() -> None:
    one, other, later = parse_mlperf(file(ROW, {**ROW, "global_batch": "16"}, {**ROW, "round": "v5.1"})).results
    assert one.series_key != other.series_key and one.spec_hash != other.spec_hash
    assert one.series_key == later.series_key and one.campaign_id != later.campaign_id


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"round": "v6.0"}, 'round: "v6.0" has no publication date; expected one of v4.1, v5.0, v5.1'),
        ({"minutes_to_train": "fast"}, 'minutes_to_train: "fast" is not a positive number'),
        ({"minutes_to_train": "nan"}, 'minutes_to_train: "nan" is not a positive number'),
        ({"minutes_to_train": "-1"}, 'minutes_to_train: "-1" is not a positive number'),
        ({"status": "dreamt"}, 'status: "dreamt"; expected success or aborted'),
        ({"nodes": "0"}, 'nodes: "0" is not a whole number of at least 1'),
        ({"run": "a"}, 'run: "a" is not a whole number of at least 0'),
        ({"submitter": "–"}, '"–" holds no letter or digit; expected a name'),
        ({"system_id": "x" * 80}, "system: String should match pattern"),
    ],
)
def test_a_bad_row_is_rejected_with_its_line_and_takes_no_other_with_it(changed: dict[str, str], reason: str) -> None:
    found = parse_mlperf(file(ROW, {**ROW, "run": "1", **changed}, {**ROW, "run": "2"}))
    assert [r.repeat for r in found.results] == [0, 2]
    (bad,) = found.rejected
    assert bad.line == 3 and bad.reason.startswith(reason)


def test_the_same_run_twice_is_said_with_both_lines() -> None:
    found = parse_mlperf(file(ROW, {**ROW, "minutes_to_train": "11"}))
    assert len(found.results) == 1 and found.results[0].metrics[0].value == 630.0
    assert found.rejected[0].line == 3 and "line 2" in found.rejected[0].reason


def test_rows_of_another_length_are_rejected() -> None:
    text = file(ROW).getvalue().splitlines()
    found = parse_mlperf([text[0], text[1] + ",more", ",".join(text[1].split(",")[:5])])
    assert [r.line for r in found.rejected] == [2, 3] and all(str(len(COLUMNS)) in r.reason for r in found.rejected)
    assert COLUMNS[5] in found.rejected[1].reason, "the first column that is missing"


def test_a_file_without_the_columns_is_no_such_file() -> None:
    with pytest.raises(ValueError, match="column availability;"):
        parse_mlperf(file(ROW, columns=COLUMNS[:-1]))


def test_a_round_that_is_dated_by_hand_is_taken() -> None:
    (found,) = parse_mlperf(file({**ROW, "round": "v6.0"}), {"v6.0": date(2026, 6, 3)}).results
    assert found.campaign_id == "mlperf-training-v6.0"


def test_a_file_that_cannot_be_split_into_rows_is_said() -> None:
    endless = io.StringIO(file(ROW).getvalue() + '"' + "x" * (csv.field_size_limit() + 1), newline="")
    with pytest.raises(ValueError, match=r"CSV .*field limit"):
        parse_mlperf(endless)
