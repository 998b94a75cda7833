"""`plumbline status` says what the overview's strip says."""

from __future__ import annotations

import subprocess
import sys

from fastapi.testclient import TestClient
from tests.parsed import Parsed


def test_each_tile_is_that_of_the_page(campaigns, plumbline, said):
    from plumbline.dashboard.app import create_app
    from plumbline.workflows.review import review_campaign

    campaigns(before=[0.100, 0.101, 0.099, 0.1005, 0.0995])
    review_campaign("before")
    campaigns(after=[0.150, 0.1515, 0.1485, 0.151, 0.149])
    review_campaign("after")
    found, code = said("status")
    tiles = found["tiles"]
    assert code == 0 and {"name": "Open findings", "value": "1"}.items() <= tiles[0].items()
    with TestClient(create_app()) as client:
        page = Parsed(client.get("/").text).text
    shown = plumbline("status").stdout
    for tile in tiles:
        assert tile["name"] in shown and tile["value"] in shown
        assert tile["name"] in page and tile["value"] in page


def test_reading_loads_no_library_that_only_draws_or_tests():
    heavy = ("scipy.stats", "ruptures", "pandas", "matplotlib")
    code = "import sys, plumbline.cli.status, plumbline.cli.decide, plumbline.cli.findings, plumbline.workflows.causes; print(*[m for m in {} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code.format(heavy)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
