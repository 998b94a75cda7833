"""A training script that reads its data, in real processes: from a folder, and from a bucket of a real S3 API."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fsspec
import pytest
from tests.fakes import object_stores
from tests.fakes.object_stores import BUCKET
from tests.fakes.trials import local_provider
from tests.integration.test_training_script import TRAIN, home, run, script, value

from plumbline.analysis.cost.campaign_bill import usage_of
from plumbline.launch.connections import store_options
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.results import ResultStore

__all__ = ["home"]

READS = """
import os, pathlib, sys
words = pathlib.Path(os.environ["PLUMBLINE_DATA"], "train", "words.txt").read_text().split()
assert sys.argv[1] == f"--data={os.environ['PLUMBLINE_DATA']}/train"
print("read", words)
""" + TRAIN.replace("sys.argv[1:]", "sys.argv[2:]")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus" / "train").mkdir(parents=True)
    (tmp_path / "corpus" / "train" / "words.txt").write_text("some words")
    return tmp_path / "corpus"


def test_data_is_fetched_before_the_script_starts_and_measured_apart(tmp_path: Path, corpus: Path) -> None:
    task = {"command": [sys.executable, "train.py", "--data={data}/train"], "data": {"from": str(corpus)}}
    measured = run(tmp_path, READS, task, fault={"inject": "rank_kill", "at_step": 9})
    assert value(measured, "data_fetch_bytes", phase="cold_start") == 10
    assert (
        value(measured, "data_fetch_time", phase="cold_start") > 0 and value(measured, "data_warm_read_bandwidth", phase="cold_start") > 0
    )
    assert measured.facts["data.source"] == str(corpus) and measured.facts["data.files"] == 1 and len(measured.hashes["data"]) == 64
    assert all("read ['some', 'words']" in item.path.read_text() for item in measured.evidence if item.kind == "log"), "each attempt had it"
    assert not list((tmp_path / "work").glob("data*/*")), "nothing is left"


@pytest.mark.parametrize("broken", [False, True], ids=["fetched", "refused"])
def test_a_trial_on_this_machine_fetches_from_a_bucket_with_its_connections_credentials(
    broken: bool, tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_stores.s3() as store:
        monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps(store.connection))
        fs, root = fsspec.core.url_to_fs(f"s3://{BUCKET}/words", **store_options(f"s3://{BUCKET}", "models", "launcher.models_connection"))
        fs.put(str(corpus), root, recursive=True)
        address = f"s3://{BUCKET}/{'nothing' if broken else 'words'}"
        task = {"command": [sys.executable, "train.py", "--data={data}/train"], "data": {"from": address}}
        provider = local_provider(models_connection="models", machine="a-machine-for-data")
        trial = script(tmp_path, READS, task).model_copy(update={"provider": provider})
        results = ResultStore((tmp_path / "results").as_uri())
        record = ProcessLauncher().launch(trial, results)
        document = results.document(results.folder(trial))
    usage = usage_of(document)
    if broken:
        assert record.failure_class == "bad_declaration" and "does not exist" in document.validity.reasons[0].detail
        assert usage.data_bytes == 0
    else:
        assert record.failure_class is None, document.validity
        assert document.value("data_fetch_bytes", phase="cold_start") == usage.data_bytes == 10
        assert document.environment is not None and document.environment.facts["data.source"] == address
        assert {name for name in document.environment.facts if "PLUMBLINE_MODELS" in name} == set()
    assert not list((tmp_path / "home" / "work").rglob("words.txt")), "nothing is left"
