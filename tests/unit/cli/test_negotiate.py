"""`plumbline negotiate`: rows of lower prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, serve, spread, world, write

from plumbline.archive import open_archive


@pytest.fixture(autouse=True)
def labs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = world()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(declared, tmp_path / "config")))
    with open_archive() as archive:
        measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        serve(archive, declared, {FAST: spread(0.04), CHEAP: spread(0.05)})


def test_each_discount_is_a_row_of_the_price_in_force(plumbline):
    told = json.loads(plumbline("negotiate", FAST, "--json").stdout)
    now = told["usd_per_hour"]
    assert [round(offer["offered"] / now, 6) for offer in told["offers"]] == [0.95, 0.9, 0.8]
    two = json.loads(plumbline("negotiate", FAST, "--less", "10%", "--less", "80", "--price", str(now), "--json").stdout)["offers"]
    assert [round(offer["offered"] / now, 6) for offer in two] == [0.9, 0.2, 1.0]
    assert not any(answer["now"]["first"] != answer["offered"]["first"] for answer in two[2]["teams"]), "its own price moves nothing"
    shown = plumbline("negotiate", FAST, "--less", "80%").stdout
    assert "−80 %" in shown and f"{FAST}: " in shown


def test_what_is_no_discount_and_who_is_not_ranked_is_said(plumbline):
    for text in ("x", "0%", "100%"):
        refused = plumbline("negotiate", FAST, "--less", text)
        assert refused.exit_code == 2 and "no discount" in refused.stderr
    assert plumbline("negotiate", "nobody").exit_code != 0
