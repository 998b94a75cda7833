"""Weights that training starts from: which workloads have them, and what is said when they cannot be had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.declarations.workloads.models import HubModel
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset import preparation

REVISION = "0123456789abcdef0123456789abcdef01234567"
FETCH = """
import sys
from plumbline.declarations.workloads.models import HubModel
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset.preparation import fetch_hub_model, vocabulary_size
try:
    folder = fetch_hub_model(HubModel(architecture="hub", id="team/model", revision=sys.argv[1]))
    print("folder", folder, vocabulary_size(folder))
except TrialFailed as failure:
    print(failure.failure_class, failure.detail)
"""


def said(cache: Path, revision: str = REVISION) -> str:
    """What a process without a network says that fetches a model of the hub. Its own: the library reads these variables only once."""
    variables = {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FETCH, revision], env=variables, capture_output=True, text=True, check=True)
    return done.stdout


def cached(cache: Path, **files: str) -> Path:
    folder = cache / "hub" / "models--team--model" / "snapshots" / REVISION
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def test_a_model_in_the_cache_needs_no_network(tmp_path: Path) -> None:
    folder = cached(tmp_path, config_json=json.dumps({"vocab_size": 77}), model_safetensors="weights")
    assert said(tmp_path) == f"folder {folder} 77\n"


def test_without_network_and_cache_it_is_said_what_would_help(tmp_path: Path) -> None:
    message = said(tmp_path)
    assert message.startswith("harness_error model.id team/model ") and REVISION in message and str(tmp_path) in message


def test_a_model_in_another_format_is_refused(tmp_path: Path) -> None:
    cached(tmp_path, config_json="{}")
    message = said(tmp_path)
    assert message.startswith("bad_declaration ") and "config.json" in message and "safetensors" in message


def test_a_configuration_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(TrialFailed, match="vocab_size"):
        preparation.vocabulary_size(tmp_path)
    (tmp_path / "config.json").write_text('{"vocab_size": 9}')
    assert preparation.vocabulary_size(tmp_path) == 9


def test_a_revision_is_a_commit() -> None:
    with pytest.raises(ValueError, match="revision"):
        HubModel(architecture="hub", id="team/model", revision="main")
