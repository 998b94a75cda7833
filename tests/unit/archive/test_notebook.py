"""The archive's door for notebooks: a table of a campaign as a data frame."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from tests.browser.sample import campaign, record

import plumbline.archive
from plumbline.archive import NoArchive, open_archive
from plumbline.presentation.tables import TABLES
from plumbline.workflows.report import write_files


@pytest.fixture(scope="module")
def campaign_id(tmp_path_factory: pytest.TempPathFactory) -> object:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(home))
        patch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
        with pytest.raises(NoArchive):
            plumbline.archive.frame("scorecards")
        data = campaign(home / "results", repeats=1)
        with open_archive() as archive:
            record(archive, data)
        yield data.campaign_id


def test_a_table_is_the_one_of_the_export(campaign_id: str) -> None:
    folder = write_files(campaign_id, ("parquet",)).tables
    assert folder is not None
    for table in ("scorecards", "metrics", "acceptance"):
        made = plumbline.archive.frame(table, campaign=campaign_id)
        assert len(made) and list(made.columns) == [c.name for c in TABLES[table].columns]
        exported = plumbline.archive.frame(table, folder=folder)
        pd.testing.assert_frame_equal(exported, made, check_dtype=False)
        assert len(plumbline.archive.frame(table, campaign="2001-01", folder=str(folder))) == 0
    assert len(plumbline.archive.frame("scorecards")) == len(plumbline.archive.frame("scorecards", campaign=campaign_id))


def test_a_file_of_before_gets_the_names_of_today(campaign_id: str, tmp_path: Path) -> None:
    new = plumbline.archive.frame("scorecards", campaign=campaign_id)
    new.rename(columns={"metric_group": "group", "is_leading": "leading"}).to_parquet(tmp_path / "scorecards.parquet")
    assert list(plumbline.archive.frame("scorecards", folder=tmp_path).columns) == list(new.columns)


def test_what_is_not_there_is_named(campaign_id: str, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match='no table is called "scorecard"; expected one of'):
        plumbline.archive.frame("scorecard")
    with pytest.raises(LookupError, match='no trial of campaign "2001-01"'):
        plumbline.archive.frame("scorecards", campaign="2001-01")
    with pytest.raises(FileNotFoundError, match=r"scorecards\.parquet is not there; expected the folder"):
        plumbline.archive.frame("scorecards", folder=tmp_path)
