import json
import re

import pytest
from tests.fakes.trials import a_trial

from plumbline.harness.__main__ import UNUSABLE, UnusableTrial, main, read_trial


@pytest.fixture
def data():
    return json.loads(a_trial().model_dump_json())


def refused(tmp_path, content):
    file = tmp_path / "trial.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UnusableTrial) as error:
        read_trial(str(file))
    message = str(error.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
    return message.removeprefix(f"{file}: ")


def test_a_planned_trial_is_read_back_whole(tmp_path):
    (tmp_path / "trial.json").write_text(a_trial().model_dump_json())
    assert read_trial(str(tmp_path / "trial.json")) == a_trial()
    assert read_trial((tmp_path / "trial.json").as_uri()) == a_trial(), "a pod reads it from the result store"


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "nowhere.json"
    for address in (str(path), path.as_uri()):
        with pytest.raises(UnusableTrial, match=f"^{re.escape(address)}: "):
            read_trial(address)


def test_text_that_is_no_json(tmp_path):
    assert refused(tmp_path, "{").endswith("JSON")


def test_a_missing_field(tmp_path, data):
    del data["campaign_id"]
    assert refused(tmp_path, data).startswith("campaign_id: ")


def test_a_wrong_type_deep_inside(tmp_path, data):
    data["workload"]["steps"]["measure"] = "many"
    message = refused(tmp_path, data)
    assert message.startswith("workload.steps.measure: ")
    assert "expected an integer" in message


def test_an_unknown_key(tmp_path, data):
    data["colour"] = "blue"
    assert refused(tmp_path, data).startswith("colour: ")


def test_a_workload_that_was_changed_after_planning(tmp_path, data, golden):
    data["workload"]["steps"]["measure"] += 1
    golden("harness.changed_after_planning", re.sub("[0-9a-f]{64}", "{sha256}", refused(tmp_path, data)))


def test_unusable_input_ends_with_two_and_one_line(tmp_path, capsys):
    assert main(["run", "--trial", str(tmp_path / "nowhere.json"), "--out", tmp_path.as_uri()]) == UNUSABLE
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "trial.json").write_text(a_trial().model_dump_json())
    assert main(["run", "--trial", str(tmp_path / "trial.json"), "--out", "nosuch://x"]) == UNUSABLE
    assert "nosuch://x" in capsys.readouterr().err
