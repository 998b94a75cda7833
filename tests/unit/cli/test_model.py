"""`plumbline model add`: the declaration that it writes is one that `plumbline check` accepts; a model that cannot be served is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from examples.small_llama import quantise
from tests import checkpoints
from tests.fakes.model_hub import REVISION, model_hub
from tests.fakes.trials import CONFIG

from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.harness.inference.checkpoint.fetched import fetch

LIKE = ("--like", "chat-tiny-cpu")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.mixture(tmp_path_factory.mktemp("models") / "My_Mixture.v2")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Path:
    """The shipped declarations, to which a workload can be added."""
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return folder


def added(name: str) -> InferenceWorkload:
    found = load().workloads[name]
    assert isinstance(found, InferenceWorkload)
    return found


def test_a_folder_becomes_a_workload_with_its_sizes(config, plumbline, said, mixture, home):
    found, code = said("model", "add", str(mixture), *LIKE)
    assert (code, found["workload"]) == (0, "my-mixture-v2")
    model = added("my-mixture-v2").model
    fetched = fetch(FolderCheckpoint(source="folder", path=str(mixture)), home / "cache")
    assert model.manifest == fetched.manifest.sha256
    assert (model.vocabulary, model.context, model.parameters) == (640, 128, fetched.contents.parameters)
    assert model.active_parameters == fetched.contents.active_parameters
    fits = {row["provider"]: row for row in found["providers"]}
    assert fits["local-1core"]["fit"]["weights"] == model.weights_bytes and fits["local-1core"]["why"] is None
    assert fits["example-eks-p5"]["why"] is not None and fits["example-eks-p5"]["enabled"] is False
    template = added("chat-tiny-cpu")
    assert added("my-mixture-v2").phases == template.phases and added("my-mixture-v2").on_demand_only
    assert plumbline("check").exit_code == 0


def test_a_hub_model_is_declared_by_its_commit_without_fetching_weights(config, said, mixture, home):
    with model_hub({"org/mixture": mixture}) as hub:
        found, code = said("model", "add", "org/mixture", "--mirror", hub.url, "--metadata-only", "--name", "mine", *LIKE)
        assert code == 0 and hub.served["model.safetensors"] < 10_000
        whole, _ = said("model", "add", "org/mixture", "--revision", REVISION, "--mirror", hub.url, "--name", "whole", *LIKE)
    assert isinstance(added("mine").model, HubCheckpoint) and added("mine").model.revision == REVISION
    assert found["model"] == whole["model"], "the hub lists the same hashes that the files have"
    assert list((home / "cache" / "models").glob("hub--org--mixture--*/manifest.json"))


def test_a_url_is_fetched_into_the_cache(config, said, mixture):
    found, code = said("model", "add", mixture.as_uri(), "--name", "there", "--precision", "int8", *LIKE)
    assert code == 0 and found["model"]["url"] == mixture.as_uri()
    assert isinstance(added("there").model, UrlCheckpoint) and added("there").quality is not None


def test_comments_and_lines_of_the_template_stay(config, said, mixture):
    said("model", "add", str(mixture), "--name", "mine", *LIKE)
    before, after = ((config / "workloads/inference" / f"{name}.yaml").read_text() for name in ("chat-tiny-cpu", "mine"))
    assert after[after.index("requests:") :].startswith(before[before.index("requests:") :].rstrip())
    assert set(yaml.safe_load(after)) >= set(yaml.safe_load(before))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nothing-here",), "owner/name"),
        (("{model}", "--like", "nobody"), "nobody"),
        (("{model}", "--precision", "fp7"), "fp8"),
        (("{model}", "--revision", "main"), "--revision"),
        (("{model}", "--name", "chat-tiny-cpu"), "--replace"),
        (("{model}", "--like", "chat-8b"), "context 512"),
        (("{model}", "--context", "4096"), "model.context"),
        (("{model}", "--name", "No Name"), "name"),
        (("org/mixture", "--mirror", "s3://bucket/models"), "--revision"),
    ],
)
def test_a_wrong_argument_is_refused_and_writes_nothing(config, plumbline, mixture, arguments, named):
    before = sorted((config / "workloads" / "inference").iterdir())
    given = [argument.format(model=mixture) for argument in arguments]
    result = plumbline("model", "add", *given, *(() if "--like" in given else LIKE))
    assert result.exit_code == 2 and named in result.stderr
    assert sorted((config / "workloads" / "inference").iterdir()) == before


@pytest.mark.parametrize("missing", ["tokenizer.json", "config.json", "model.safetensors"])
def test_a_broken_model_is_refused(config, plumbline, mixture, tmp_path, missing):
    folder = shutil.copytree(mixture, tmp_path / "broken")
    (folder / missing).unlink()
    result = plumbline("model", "add", str(folder), *LIKE)
    assert result.exit_code == 2 and missing.rpartition(".")[2] in result.stderr


def test_a_gated_model_needs_a_token(config, plumbline, mixture, monkeypatch):
    with model_hub({"org/mixture": mixture}, token="hf_mine") as hub:
        arguments = ("model", "add", "org/mixture", "--mirror", hub.url, "--metadata-only", *LIKE)
        assert plumbline(*arguments).exit_code == 2
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        result = plumbline(*arguments)
    assert result.exit_code == 0 and "hf_mine" not in result.stdout + result.stderr


def test_quantised_files_are_compared_with_the_template_s_checkpoint(config, said, plumbline, mixture, tmp_path):
    said("model", "add", str(mixture), "--name", "exact", *LIKE)
    quantised = tmp_path / "int8"
    quantise(mixture, quantised)
    refused = plumbline("model", "add", str(quantised), "--name", "cheap", *LIKE)
    assert refused.exit_code == 2 and "--like" in refused.output and not (config / "workloads" / "inference" / "cheap.yaml").exists()
    found, code = said("model", "add", str(quantised), "--name", "cheap", "--like", "exact")
    assert code == 0 and added("cheap").model.precision == found["model"]["precision"] == "int8"
    assert added("cheap").quality.reference.path == str(mixture)
