"""`plumbline run` says what it meets before, while and after Airflow measures."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from tests.fakes.trials import CONFIG, a_trial

from plumbline.archive import Archive
from plumbline.cli import campaign
from plumbline.embedded.campaign import CampaignState, _Campaign
from plumbline.launch import stores
from plumbline.launch.plan import RunRequest

RUN = ("run", "--provider", "local-1core", "--workload", "gpt-tiny-cpu", "--campaign", "mine")


@pytest.mark.fault(
    "the archive, a disk or a permission fails while `plumbline run` measures", ends="one sentence, exit code 1", keeps="what was measured"
)
@pytest.mark.parametrize(
    "error", [OperationalError("INSERT", {}, Exception("readonly database")), PermissionError(13, "Permission denied")]
)
def test_a_run_that_fails_names_the_campaign_to_collect(plumbline, home, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr("plumbline.cli.campaign.measure_campaign", fails)
    result = plumbline(*RUN)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    said = " ".join(result.stderr.split())
    assert "plumbline archive collect mine records what was measured" in said and "has" not in said.split("once")[0]


def test_an_archive_that_cannot_be_written_ends_a_run_before_airflow_is_started(plumbline, home, monkeypatch):
    def fails(*_):
        raise OperationalError("INSERT", {}, Exception("readonly database"))

    monkeypatch.setattr(Archive, "check_writable", fails)
    monkeypatch.setattr("plumbline.cli.campaign.AirflowServer", None)
    result = plumbline(*RUN)
    assert result.exit_code == 1 and "nothing was measured" in " ".join(result.stderr.split())


def test_a_run_of_a_campaign_that_exists_says_what_it_adds(plumbline, home, monkeypatch):
    trial = a_trial()
    stores.home().put(stores.planned_path("mine", trial.trial_id), b"{}")
    monkeypatch.setattr("plumbline.cli.campaign.measure_campaign", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied")))
    said = " ".join(plumbline(*RUN).stderr.split())
    assert "campaign mine has 1 trials; each that is measured again gets a further attempt" in said


@pytest.mark.fault("a declaration is broken while `plumbline run` measures", ends="the command names the file", keeps="the campaign")
def test_a_file_that_is_broken_while_a_campaign_is_measured_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    shown: list[CampaignState] = []
    running = _Campaign(None, None, None, RunRequest("mine", "a test"), {}, shown.append, ())  # type: ignore[arg-type]
    file = config / "thresholds.yaml"
    text = file.read_text()
    with campaign.CampaignProgress() as watching:
        for content in (text, text + "nonsense: [\n", None, text):
            if content is not None:
                time.sleep(0.01)  # another time of writing
                file.write_text(content)
            running._check_declarations()
            running._report_state()
            watching.state(shown[-1])
    assert [bool(state.broken) for state in shown] == [False, True, True, False]
    said = capsys.readouterr().err
    assert said.count("thresholds.yaml:") == 1 and "last valid declarations" in " ".join(said.split())
