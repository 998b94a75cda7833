"""A price source of another package: a declaration, a source and one entry point."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import provider
from tests.fakes.installation import install_package

from plumbline.analysis.prices.check import check_price
from plumbline.declarations import Provider, load
from plumbline.price_sources import read_prices

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
FILES = {
    "page_prices-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: page-prices\nVersion: 1\n",
    "page_prices-1.dist-info/entry_points.txt": "[plumbline.price_sources]\npage = page_prices:PageSource\n",
    "page_prices/__init__.py": """
from typing import Literal
from plumbline.declarations.providers.provider import PriceSourceBase

class PageSource(PriceSourceBase):
    kind: Literal["page"]
    file: str
    implementation = "page_prices.source:PagePrices"
""",
    "page_prices/source.py": """
import json
from pathlib import Path
from plumbline.price_sources import PriceSourceDown
from plumbline.results.price_reading import Reading

class PagePrices:
    def __init__(self, declared):
        self.declared = declared

    def read(self, provider, at):
        try:
            page = json.loads(Path(self.declared.file).read_text())
        except OSError as error:
            raise PriceSourceDown("page", provider.name, str(error), "restore the file") from error
        return [Reading(provider.name, "on_demand", None, "page", page["version"], at, page["usd"], "USD", "instance_hour", provider.accelerator.count)]
""",
}


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    install_package(tmp_path, monkeypatch, FILES)
    return provider("cloud", price_sources=[{"kind": "page", "file": str(tmp_path / "page.json")}])


def test_its_price_is_read_and_checked(listed: Provider, tmp_path: Path) -> None:
    (tmp_path / "page.json").write_text('{"version": "7", "usd": 3.0}')
    report = read_prices(Provider.model_validate_json(listed.model_dump_json()), load(), NOW)
    assert report.failures == ()
    assert check_price(report.readings, accepted=None).price == 1.5


def test_its_failure_names_it(listed: Provider) -> None:
    (failure,) = read_prices(listed, load(), NOW).failures
    assert (failure.source, failure.provider, failure.remedy) == ("page", "cloud", "restore the file")
