"""Lines as the programs write them, read by the declared format."""

from __future__ import annotations

import math
from time import perf_counter

import pytest

from plumbline.declarations.workloads.script import CsvReport, JsonLinesReport, KnownReport, RegexReport, ReporterReport, TensorBoardReport
from plumbline.harness.training.script.reports import Reported, reader_of, reported

KNOWN = {
    "nanogpt": (
        "iter 10: loss 4.1234, time 125.32ms, mfu -100.00%",
        Reported(step=10, loss=4.1234, seconds=0.12532),
        "step 250: train loss 1.4567, val loss 1.6234",
    ),
    "torchtitan": (
        "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - \x1b[31mstep: 14  \x1b[32mloss:  3.24405  \x1b[38;2;180;60;0mgrad_norm:  0.8319  "
        "\x1b[38;2;54;234;195mmemory:  9.46GiB(64.99%)  \x1b[34mtps: 7,282  \x1b[36mtflops: 0.52  \x1b[35mmfu: 0.17%\x1b[39m",
        Reported(step=14, loss=3.24405),
        "[titan] 2026-05-18 16:04:46,338 - root - INFO - Training starts at step 1",
    ),
    "huggingface": (
        "\r 10%|█         | 1/10 [00:00<00:04]\r   \r{'loss': '3.214', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.1'}",
        Reported(loss=3.214),
        "{'train_runtime': '1.2', 'train_samples_per_second': '66', 'train_loss': '3.1', 'epoch': '1'}",
    ),
    "megatron": (
        " [2026-04-27 00:00:01] iteration      201/  250000 | consumed samples:       205824 | elapsed time per iteration (ms): 139113.5 | "
        "throughput per GPU (TFLOP/s/GPU): 40.4 | learning rate: 1.507E-05 | global batch size:  1024 | lm loss: 2.373574E+00 | "
        "mtp_1 loss: 4.0E+00 | loss scale: 1.0 | grad norm: 0.811 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        Reported(step=201, loss=2.373574, seconds=139.1135),
        " validation loss at iteration 1000 | lm loss value: 2.4E+00 | lm loss PPL: 1.1E+01 |",
    ),
    "nemo": (
        "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 | "
        "reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106",
        Reported(step=120, loss=1.233, seconds=0.03146),
        "Validation: iteration 1/8",
    ),
    "litgpt": (
        "Epoch 2 | iter 40 step 10 | loss train: 3.250, val: n/a | iter time: 52.10 ms (step) remaining time: 0:01:00",
        Reported(step=10, loss=3.25),
        "iter 40: val loss 3.3, val time: 900.00 ms",
    ),
    "deepspeed": (
        "steps: 30 loss: 2.2500 iter time (s): 0.512 samples/sec: 500.1",
        Reported(step=30, loss=2.25, seconds=0.512),
        "[2026-04-28 06:59:46,878] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=0, lr=[0.001], mom=[(0.9, 0.95)]",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_log_lines(name: str) -> None:
    line, report, other = KNOWN[name]
    reader = reader_of(KnownReport(format=name))
    assert reader.read(line) == report
    assert reader.read(other) is None


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (" iteration  1,1/ 5 | x", None),
        (
            " iteration 7/ 9 | elapsed time per iteration (ms): 52.5/48.1 | loss: 1.5E+01 | loss scale: 1.0 |",
            Reported(7, 15.0, seconds=0.0525),
        ),
        (
            " iteration 8/ 9 | elapsed time per iteration (ms): 52.5 | loss scale: 65536.0 | number of skipped iterations:   1 |",
            Reported(8, seconds=0.0525),
        ),
        (
            "[default3]: iteration 10/ 99 | elapsed time per iteration (s): 7.25 | lm loss: 1.0E+01 | loss scale: 4096.0 |",
            Reported(10, 10.0, seconds=7.25),
        ),
        (
            " samples/sec: 7.8 | iteration 30/ 99 | elapsed time per iteration (ms): 4130.0 | lm_loss: 1.25E+01 |",
            Reported(30, 12.5, seconds=4.13),
        ),
    ],
)
def test_variants_of_megatron(line: str, report: Reported | None) -> None:
    assert reader_of(KnownReport(format="megatron")).read(line) == report


VALIDATIONS = (
    "validate step: 5",
    "Iter 5: Val",
    "[eval] step 5",
    "step 5: train ppl 2, validation",
    "Epoch 1 Validation: 100%",
    "Evaluating: 50%| 5/10 [00:01<00:01, ",
)
NO_VALIDATIONS = (
    "/data/test/run.py: step 5",
    "run=test-1 step 5",
    "latest step 5",
    "interval 5",
    "step 5 train",
    "loading the validation set took 3 s; step 5",
)


def test_a_line_of_a_validation_is_no_report() -> None:
    read = reader_of(RegexReport(format="regex", pattern=r"loss[:= ]+(?P<loss>[0-9.]+)")).read
    assert [line for line in VALIDATIONS if read(f"{line} loss: 2.5, step 5") is not None] == []
    assert [line for line in NO_VALIDATIONS if read(f"{line} loss: 2.5, val_loss: 3") != Reported(loss=2.5)] == []
    assert reader_of(RegexReport(format="regex", pattern=r"val_loss: (?P<loss>[0-9.]+)")).read("val_loss: 2.5") == Reported(loss=2.5)


def test_a_bar_of_nemo_s_first_version() -> None:
    bar = "Epoch 0: :   6%|█| 1/15 [06:19<07:13, reduced_train_loss=11.00, global_step=0.000, consumed_samples=2048.0, train_step_timing in s=49.50]"
    assert reader_of(KnownReport(format="nemo")).read(bar) == Reported(0, 11.0, seconds=49.5)


def test_nemo_and_hugging_face_before_they_changed() -> None:
    assert reader_of(KnownReport(format="nemo")).read("| global_step: 0 | reduced_train_loss: 11.02") == Reported(0, 11.02)
    read = reader_of(KnownReport(format="huggingface")).read
    assert read("{'loss': 2.5234, 'learning_rate': 1.03e-06, 'epoch': 0.0}") == Reported(loss=2.5234)
    assert read('{"loss": 7.152, "learning_rate": 4.8e-05, "step": 500}') == Reported(loss=7.152)
    assert (report := read("{'loss': 'nan', 'epoch': 0.0}")) is not None and math.isnan(report.loss or 0.0)


def test_rows_of_lightning() -> None:
    read = reader_of(KnownReport(format="lightning")).read
    assert [read(row) for row in ("epoch,step,train_loss_epoch,train_loss_step,val_loss", "0,49,,0.48,", "0,49,0.5,,", "0,49,,,0.7")] == [
        None,
        Reported(49, 0.48),
        None,
        None,
    ]


def test_words_and_numbers_of_a_pattern() -> None:
    read = reader_of(RegexReport(format="regex", pattern=r"step (?P<step>\S+) .*tok (?P<tokens>\S+) (?P<milliseconds>\d+)ms")).read
    assert read("step 1,200 tok 8,192 250ms") == read("step 1,200 lr 3 tok 8,192 250ms") == Reported(1200, tokens=8192.0, seconds=0.25)
    assert read("step one tok 8,192 250ms") is None
    assert read("step 1.5 tok 8,192 250ms") is None


def test_json_lines_behind_a_prefix() -> None:
    read = reader_of(JsonLinesReport(format="jsonl", step="step", loss="train/loss|loss", tokens="tokens")).read
    assert read('INFO 12:00 {"step": 3, "loss": "2.5", "tokens": 4096}') == Reported(3, 2.5, 4096.0)
    assert read('{"step": 3, "train/loss": NaN}') is not None
    for other in ('{"step": 3, "eval_loss": 2}', '{"step": true, "loss": 2}', '{"step": 3, "loss": 2', "[1]", "{}", "{" * 50_000):
        assert read(other) is None


def test_steps_of_the_reporter() -> None:
    read = reader_of(ReporterReport(format="reporter")).read
    assert read('{"event": "step", "step": 4, "began": 10, "ended": 9007199254740993, "loss": null, "data_wait": 0.5}') == Reported(
        4, data_wait=0.5, began=10, ended=9007199254740993
    )
    assert read('{"event": "checkpoint", "step": 4, "began": 10, "ended": 30}') is None


def test_columns_of_a_csv() -> None:
    read = reader_of(CsvReport(format="csv", file="log.csv", loss="l", samples="n")).read
    assert [read(row) for row in ("n, l\r", "8,2.5", '"1,024",2', "8", "x,y")] == [
        None,
        Reported(loss=2.5, samples=8.0),
        Reported(loss=2, samples=1024),
        None,
        None,
    ]


def test_event_files_have_no_lines() -> None:
    with pytest.raises(ValueError, match="tensorboard has no lines"):
        reader_of(TensorBoardReport(format="tensorboard", folder="runs", loss="loss"))


def test_a_long_line_costs_little_more_than_its_beginning() -> None:
    """A pattern that begins with .* is quadratic in what it reads."""
    read = reader_of(RegexReport(format="regex", pattern=r".*x(?P<loss>[0-9.]+)!")).read

    def seconds(length: int) -> float:
        start = perf_counter()
        assert read("x1" * (length // 2)) is None
        return perf_counter() - start

    short = min(seconds(1 << 12) for _ in range(3))
    assert min(seconds(1 << 20) for _ in range(3)) < 3 * short


def test_times_and_amounts_that_are_none_are_left_out() -> None:
    assert reported({"step": 1, "loss": "nan", "seconds": "inf", "tokens": -5, "data_wait": "nan"}) == Reported(
        1, loss=pytest.approx(math.nan, nan_ok=True)
    )
    assert reported({"step": 1, "seconds": "0.5", "tokens": 0}) == Reported(1, seconds=0.5, tokens=0)
    assert reported({"seconds": "nan"}) is None
