from __future__ import annotations

import json

import pytest
from tests.golden import Golden
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.cli.trial import compact
from plumbline.results import CheckLine

GOOD = [CheckLine.compared("event_timer", 1.0, 1.0, 0.1, "s", "fine", of="cpu"), CheckLine.not_applicable("energy_counter", "no GPU")]
BAD = CheckLine.compared("load_client", 0.3, 0.1, 0.005, "s", "late", of="gap")


@pytest.mark.parametrize(("lines", "code"), [(GOOD, 0), ([*GOOD, BAD], 1)])
def test_a_failed_line_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, lines: list[object], code: int) -> None:
    asked: list[str] = []
    monkeypatch.setattr("plumbline.harness.selfcheck.run", lambda device: asked.append(device) or lines)
    done = CliRunner().invoke(app, ["selfcheck", "--device", "cuda", "--json"])
    assert (done.exit_code, asked) == (code, ["cuda"])
    assert [line["status"] for line in json.loads(done.stdout)["lines"]] == [line.status for line in lines]  # type: ignore[attr-defined]
    assert CliRunner().invoke(app, ["selfcheck"]).exit_code == code


def test_an_unknown_device_is_refused() -> None:
    assert CliRunner().invoke(app, ["selfcheck", "--device", "tpu"]).exit_code == 2


def test_all_lines_in_one(golden: Golden) -> None:
    golden("cli.selfcheck", f"{compact(GOOD)}\n{compact([*GOOD, BAD])}")
