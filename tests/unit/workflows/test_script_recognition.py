"""Lines of many programs: which of them are steps, and which number is the step's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations.workloads.script import CsvReport, RegexReport
from plumbline.workflows.script_recognition import Recognised, recognise


def seen(*lines: str, new: Any = (), folder: Path = Path("/nowhere")) -> Recognised | str:
    return recognise(list(lines), [], folder, list(new), None)


def written(form: str, numbers: Any = range(12)) -> list[str]:
    return [form.format(n=n, loss=9 - n / 1000, noise=n % 3) for n in numbers]


def steps_of(found: Recognised | str) -> list[int | None]:
    assert isinstance(found, Recognised), found
    return [report.step for report in found.reports]


FORMS = {
    "behind a word, padded": "[info]   step:      {n}   lr: 1e-4   loss:   {loss}",
    "plural": "steps: {n} | training loss {loss}",
    "in brackets": "Epoch [1/9], Iter [{n}], Loss: {loss:.4f}",
    "before a total": "Train Epoch: 1 [{n}/600 (3%)]  Loss: {loss:.6f}",
    "behind the loss": "loss={loss} speed=3.1it/s batch {n}",
    "in front": "{n} | loss {loss} | lr 1e-4 | 80.1ms",
    "in front, the loss before its word": "{n:5d} 4.31 s run, {loss} loss, 0.000000000001 LR",
    "in front of a bar's total": "Epoch 0:  6%|#  | {n}/74 [00:0{noise}<00:10,  6.7it/s, loss={loss}]",
    "an update": "update {n}: ppl 12.{noise}, train_loss {loss}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_step_is_the_number_that_rises(form: str) -> None:
    found = seen(*written(form, range(10, 130, 10)))
    assert steps_of(found) == list(range(10, 130, 10))
    assert isinstance(found, Recognised) and not found.counted
    assert (found.every, found.report.uneven) == ((1, True) if "00:0" in form else (10, False))
    assert found.reports[0].loss == pytest.approx(8.99)


def test_a_validation_s_line_is_no_step() -> None:
    training, validation = written("step {n} | loss: {loss}"), written("validation loss: {loss}", range(30))
    assert steps_of(seen(*training, *validation)) == list(range(12))
    assert steps_of(
        seen(*(line for n in range(12) for line in (f"Iter {n}: Val loss 2.{n}, took 1s", f"Iter {n}: Train loss 1.{n}")))
    ) == list(range(12))
    assert seen(*validation) == "its 30 lines with a loss are of a validation"


def test_of_several_ranks_each_step_is_one() -> None:
    ranks = [f"[rank{rank}] step {n} loss {9 - n}" for n in range(12) for rank in (0, 1, 2)]
    assert steps_of(seen(*ranks)) == list(range(12))


def test_an_epoch_that_begins_again_goes_on_and_a_number_that_stays_is_no_step() -> None:
    assert len(steps_of(seen(*written("epoch 0 step {n} loss {loss}"), *written("epoch 1 step {n} loss {loss}")))) == 24
    stays = seen(*written("batch 40 loss 1.{n}", range(3)))
    assert isinstance(stays, Recognised) and stays.counted


def test_reports_without_any_number_are_counted_and_said_to_be() -> None:
    found = seen(*written("loss {loss} lr 1e-3"))
    assert isinstance(found, Recognised) and found.counted and found.bar_every is None and len(found.reports) == 12


def test_two_bare_numbers_are_a_step_and_its_loss_where_no_line_names_one() -> None:
    bar = "training:   0%|          | 71/100000 [01:37<36:21:31,  1.31s/it]"
    found = seen("a title", *(f"{bar if n == 71 else ''}{n}: {9 - n / 100}" for n in range(60, 80)), "12: not a number", "input: 3")
    assert steps_of(found) == list(range(60, 80))
    assert isinstance(found, Recognised) and (found.reports[0].loss, found.every) == (pytest.approx(8.4), 1)
    named = [line for n in range(12) for line in (f"{n}: 0.5", f"step {n} loss {9 - n}")]
    assert [report.loss for report in seen(*named).reports] == list(range(9, -3, -1))  # type: ignore[union-attr]
    stays = seen(*(f"3: {n}.5" for n in range(12)))
    assert isinstance(stays, str) and "of step 3" in stays


def test_a_total_is_no_step() -> None:
    objects = written('{{"max_steps": 100, "current_steps": {n}, "iters": 100, "loss": {loss}, "eval_loss": null}}')
    found = seen(*objects)
    assert isinstance(found, Recognised)
    assert (found.report.model_dump()["step"], found.report.model_dump()["loss"], len(found.reports)) == ("current_steps", "loss", 12)


def test_a_table_s_column_that_rises_is_the_step(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("total_steps,global_step,train_loss\n" + "".join(f"900,{n},{9 - n}\n" for n in range(5)))
    found = seen(new=[table], folder=tmp_path)
    assert isinstance(found, Recognised)
    assert found.report == CsvReport(format="csv", file="log.csv", step="global_step", loss="train_loss")


def test_why_a_format_does_not_fit_is_named() -> None:
    given = RegexReport(format="regex", pattern=r"step (?P<step>\d+)")
    fall = recognise(written("step {n} loss 1.{n}", [*range(20), 9, 11, 8]), [], Path(), [], given)
    assert fall == "its steps are out of order: step 9 after step 19"
    assert recognise(written("step 40 loss 1.{n}"), [], Path(), [], given) == "all of its 12 reports are of step 40"
