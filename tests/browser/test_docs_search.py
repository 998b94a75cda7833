"""The documentation's search finds the words of docs/in-your-words.md: each on the page that its row links to, and that page's row beside it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

pytestmark = [
    pytest.mark.full,  # builds the site first
    pytest.mark.skipif(sys.version_info < (3, 11), reason="Sphinx needs Python 3.11 or newer"),
]
ROOT = Path(__file__).resolve().parents[2]
RIGHT = {
    "mute": "alerts",
    "silence": "alerts",
    "Teams": "extend",
    "webhook": "extend",
    "e-mail": "read-a-report",
    "regression": "read-a-finding",
    "threshold": "read-a-finding",
    "warehouse": "export-tables",
    "BigQuery": "export-tables",
    "Snowflake": "export-tables",
    "SQL": "operate",
    "Prometheus": "limits",
    "Grafana": "grafana",
    "retention": "operate",
    "Slurm": "limits",
    "SSH": "limits",
    "bare metal": "limits",
    "quota": "operate",
    "air-gapped": "declare-a-model",
    "TGI": "engines",
    "own model": "your-own-model",
    "training script": "your-own-training",
    "discount": "watch-prices",
    "reserved": "declare-a-provider",
    "commitment": "declare-a-provider",
    "spot": "cost-scenarios",
    "chargeback": "cost",
    "invoice": "cost",
    "uptime": "declare-a-provider",
    "availability": "declare-a-provider",
    "SSO": "single-sign-on",
    "LDAP": "single-sign-on",
}
_SEARCH = "words => words.map(word => Search._performSearch(...Search._parseQuery(word)).reverse().map(found => found[0] + found[2]))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(built)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return built


def test_the_first_result_of_each_word_is_its_page(window: Page, site: Path) -> None:
    """The second is the row of docs/in-your-words.md, which says what is supported."""
    window.goto(f"file://{site}/search.html")
    window.wait_for_function("Search.hasIndex()")
    rows = runpy.run_path(str(ROOT / "docs" / "conf.py"))["synonyms"]()
    rows.pop("in-your-words")
    places = {word: page for page, anchors in rows.items() for words in anchors.values() for word in words}
    assert {word: page for word, page in RIGHT.items() if places.get(word.lower()) != page} == {}
    found = {
        word: [address.split("#")[0] for address in addresses[:2]]
        for word, addresses in zip(places, window.evaluate(_SEARCH, list(places)), strict=True)
    }
    assert {word: pages for word, pages in found.items() if pages != [places[word], "in-your-words"]} == {}


def test_a_reader_who_types_a_word_is_led_to_the_section(window: Page, site: Path) -> None:
    window.goto(f"file://{site}/search.html?q=mute")
    first = window.locator("#search-results li a").first
    first.wait_for()
    first.click()
    window.wait_for_load_state("load")
    assert window.url.split("/")[-1].startswith("alerts.html")
    anchor = window.url.split("#")[1].split("?")[0]
    heading = window.locator(f"xpath=//*[@id='{anchor}']/following::h2").first
    assert heading.inner_text().startswith("Snooze, acknowledge, resolve")
