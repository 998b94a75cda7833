"""A campaign whose results are signed in the pod: one flipped bit is found where results arrive, where they are kept, and where they go."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.archive import Archive, open_archive
from plumbline.archive.schema import Document
from plumbline.launch import stores
from plumbline.results import ResultDocument, ResultStore, quarantine, signing
from plumbline.workflows import collect, record
from plumbline.workflows.evidence_pack import EvidencePack, write_evidence_pack

pytestmark = pytest.mark.full  # tests/unit/results/test_signing.py tries signatures without Airflow

NS = "plumbline"
DAG_FILE = """
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from plumbline.declarations import Provider
from plumbline.airflow.operators import TrialPodOperator
from plumbline.airflow.defaults import launch_settings

provider = Provider.model_validate_json(Path({provider!r}).read_text())
with DAG("signed_campaign", schedule=None) as dag:
    settings = {{**launch_settings(provider), "pool": "default_pool", "retry_delay": timedelta(0), "retry_exponential_backoff": False}}
    TrialPodOperator(task_id="run", provider=provider, spec={spec!r}, **settings)
"""


def real_harness(run: PodRun) -> int:
    """The harness as its image starts it, with the pod's own arguments and environment."""
    container = run.row["spec"]["containers"][0]
    given = {name: value for name, value in run.environment().items() if name.startswith("PLUMBLINE_")}
    work = Path(os.environ["PLUMBLINE_HOME"]) / "pod"
    done = subprocess.run(
        [sys.executable, "-m", "plumbline.harness", "run", *container["args"]],
        env={"PATH": os.environ["PATH"], "HOME": str(work), "PYTHONPATH": search_path("include"), "PLUMBLINE_HOME": str(work), **given},
        capture_output=True,
        text=True,
        check=False,
    )
    run.say(*done.stdout.splitlines(), *done.stderr.splitlines())
    return done.returncode


class Campaign:
    """One trial, measured in a pod of the fake cluster and recorded; its bucket, its home and its archive."""

    def __init__(self, folder: Path) -> None:
        self.away, self.home = ResultStore((folder / "away").as_uri()), stores.home()
        self.provider = cluster_provider(results_url=self.away.url, poll="1s", timeout="300s", retries=0)
        self.trial = a_trial(provider=self.provider)
        self.spec = {"campaign_id": self.trial.campaign_id, "trial_id": self.trial.trial_id, "title": "signed"}
        self.home.put(stores.planned_path(self.trial.campaign_id, self.trial.trial_id), self.trial.model_dump_json().encode())
        self.folder = self.home.folder(self.trial)

    def run(self, folder: Path) -> str:
        (folder / "provider.json").write_text(self.provider.model_dump_json())
        file = Path(os.environ["AIRFLOW_HOME"]) / "dags" / "signed_campaign.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(DAG_FILE.format(provider=str(folder / "provider.json"), spec=self.spec))
        specification = importlib.util.spec_from_file_location("signed_campaign", file)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        (task,) = module.dag.test().get_task_instances()
        file.unlink()
        return str(task.state)

    def arrives(self) -> ResultDocument:
        """What collect makes of what lies in the bucket now, as if it had just arrived."""
        self.home.remove(f"{self.folder}/result.json")
        collect.collect_trial(self.spec)
        return self.home.collected(self.folder)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Campaign, FakeKubernetes, Path]]:
    from airflow.utils import db

    folder = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch, FakeKubernetes() as kube:
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        patch.setenv("PLUMBLINE_HOME", str(folder / "home"))
        patch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
        patch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        patch.setattr("plumbline.airflow.triggers.EARLIEST_S", 0.0)
        db.initdb()
        kube.script("*", Script().started().runs(real_harness))
        campaign = Campaign(folder)
        assert campaign.run(folder) == "success", campaign.home.launch(campaign.folder)
        collect.collect_trial(campaign.spec)
        checked = {**campaign.spec, "verdicts": [{"attempt": 1, "action": "accept", "reasons": []}]}
        with open_archive() as archive:
            assert record.record_trial(archive, checked)["recorded"] == ["inserted"]
        yield campaign, kube, folder


def flipped(data: bytes, where: int) -> bytes:
    return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]


def in_document(document: bytes) -> bytes:
    """One bit of a measured number's first decimal: 0 becomes 1, 1 becomes 0, 2 becomes 3. It stays a number, and another one."""
    found = re.search(rb'"value": -?\d+\.', document)
    assert found is not None
    return flipped(document, found.end())


def in_syntax(document: bytes) -> bytes:
    """One bit of the first colon, so that it is no JSON any more."""
    return flipped(document, document.index(b":"))


def in_signature(document: bytes) -> bytes:
    at = document.index(b'"signature": {')
    at = document.index(b'"value": "', at) + len(b'"value": "')
    return flipped(document, next(i for i in range(at, at + 128) if document[i : i + 1].isdigit()))


def test_the_signature_is_verified_and_its_key_is_gone(signed: tuple[Campaign, FakeKubernetes, Path]) -> None:
    campaign, kube, folder = signed
    document = campaign.home.collected(campaign.folder)
    assert document.validity.status != "failed" and document.evidence
    with open_archive() as archive:
        keys = archive.signing_keys(campaign.trial.campaign_id, campaign.trial.trial_id)
        assert signing.verify(document, keys).status == "verified" and archive.verify(evidence=True) == []
    assert kube.leftovers() == [], "the Secret goes with the pod"
    (secret,) = [call.body for call in kube.called(f"POST /api/v1/namespaces/{NS}/secrets")]
    private = secret["stringData"][signing.KEY_VARIABLE].encode()
    kept = [file for top in (folder, Path(os.environ["AIRFLOW_HOME"])) for file in top.rglob("*") if file.is_file()]
    assert len(kept) > 10 and not [file for file in kept if private in file.read_bytes()], "the private half is kept nowhere"
    away = [file for file in (folder / "away").rglob("*") if file.is_file()]
    assert not [file for file in away if keys[1].encode() in file.read_bytes()], "the public half is not in the bucket"


@pytest.mark.fault(
    "one bit of a signed result is flipped in the bucket", ends="harness_error, document in quarantine", keeps="the bytes as they arrived"
)
@pytest.mark.parametrize("what", ["document", "evidence", "signature", "unsigned", "forged"])
def test_collect_finds_it(signed: tuple[Campaign, FakeKubernetes, Path], what: str) -> None:
    campaign, _, _ = signed
    path = f"{campaign.folder}/result.json"
    good = campaign.away.get(path)
    document = ResultDocument.model_validate_json(good)
    evidence = f"{campaign.folder}/{document.evidence[0].uri}"
    raw = campaign.away.get(evidence)
    fields = {name: getattr(document, name) for name in ResultDocument.model_fields if name not in ("checksum", "harness_version")}
    spoilt = {
        "document": in_document(good),
        "evidence": good,
        "signature": in_signature(good),
        "unsigned": document.model_copy(update={"signature": None}).model_dump_json(indent=1).encode(),
        "forged": ResultDocument.sealed(harness_version="9.9.9", **fields).model_dump_json(indent=1).encode(),
    }
    campaign.away.put(path, spoilt[what])
    if what == "evidence":
        campaign.away.put(evidence, flipped(raw, len(raw) // 2))
    try:
        found = campaign.arrives()
        assert (found.validity.status, found.validity.failure_class, found.metrics) == ("failed", "harness_error", ())
        assert quarantine.read_note(campaign.home, campaign.folder, "result.json") is not None
    finally:
        campaign.away.put(path, good)
        campaign.away.put(evidence, raw)
        shutil.rmtree(str(campaign.home.uri("quarantine")).removeprefix("file://"), ignore_errors=True)
    assert campaign.arrives().validity.status == document.validity.status, "what was signed is believed again"


@pytest.mark.fault("a bit of a signed result is flipped in archive or store", ends="a line of archive verify", keeps="every other trial")
@pytest.mark.parametrize("what", ["document", "syntax", "evidence", "signature"])
def test_archive_verify_finds_it(signed: tuple[Campaign, FakeKubernetes, Path], what: str) -> None:
    campaign, _, _ = signed
    document = campaign.home.collected(campaign.folder)
    evidence = f"{campaign.folder}/{document.evidence[0].uri}"
    good, raw = document.model_dump_json(), campaign.home.get(evidence)
    indented = document.model_dump_json(indent=1).encode()
    spoilt = {
        "document": in_document(indented).decode(),
        "syntax": in_syntax(indented).decode(),
        "signature": in_signature(indented).decode(),
        "evidence": good,
    }
    with open_archive() as archive:
        _rewrite(archive, spoilt[what])
        if what == "evidence":
            campaign.home.put(evidence, flipped(raw, len(raw) // 2))
        try:
            (problem,) = archive.verify(evidence=True)
            assert (
                campaign.trial.trial_id in problem
                and {"evidence": "SHA-256", "signature": "signature", "document": "checksum", "syntax": "JSON"}[what] in problem
            )
        finally:
            _rewrite(archive, good)
            campaign.home.put(evidence, raw)
        assert archive.verify(evidence=True) == []


def _rewrite(archive: Archive, content: str) -> None:
    with archive.engine.connect().execution_options(plumbline_writing=True) as connection, connection.begin():
        for trigger in ("documents_no_update",):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger}")
        connection.execute(update(Document).values(content=content))


def _verified(pack: Path, key: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(pack / "verify.py"), "--key", key], capture_output=True, text=True, check=False, cwd="/"
    )


@pytest.fixture(scope="module")
def packed(signed: tuple[Campaign, FakeKubernetes, Path]) -> EvidencePack:
    campaign, _, folder = signed
    with open_archive() as archive:
        return write_evidence_pack(archive, campaign.trial.campaign_id, folder / "pack.zip")


def test_the_pack_verifies_without_plumbline_and_is_the_same_each_time(signed: Any, packed: EvidencePack, tmp_path: Path) -> None:
    campaign, _, _ = signed
    assert (packed.trials, packed.signed, packed.problems) == (1, 1, ())
    with open_archive() as archive:
        again = write_evidence_pack(archive, campaign.trial.campaign_id, tmp_path / "again.zip")
    assert again.file.read_bytes() == packed.file.read_bytes()
    with zipfile.ZipFile(packed.file) as pack:
        pack.extractall(tmp_path / "pack")
    done = _verified(tmp_path / "pack", packed.key)
    assert (done.returncode, done.stderr) == (0, "") and "VERIFIED: 1 " in done.stdout
    assert "plumbline" not in (tmp_path / "pack" / "verify.py").read_text().lower()


@pytest.mark.fault("a bit of an evidence pack is flipped", ends="verify.py: FAILED, exit status 1", keeps="the other files of the pack")
@pytest.mark.parametrize("what", ["document.json", "signature.bin", "evidence", "public-key.pem", "a new index", "missing"])
def test_the_packs_own_verifier_finds_it(signed: Any, packed: EvidencePack, tmp_path: Path, what: str) -> None:
    campaign, _, _ = signed
    with zipfile.ZipFile(packed.file) as pack:
        pack.extractall(tmp_path)
    (folder,) = (tmp_path / "trials").iterdir()
    uri = campaign.home.collected(campaign.folder).evidence[0].uri
    file = folder / {"evidence": uri, "a new index": "document.json", "missing": uri}.get(what, what)
    if what == "missing":
        file.unlink()
    else:
        file.write_bytes(flipped(file.read_bytes(), len(file.read_bytes()) // 2))
    if what in ("a new index", "evidence"):  # also with an index that was made to fit
        import hashlib

        index = json.loads((tmp_path / "index.json").read_text())
        index["files"][file.relative_to(tmp_path).as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
        (tmp_path / "index.json").write_text(json.dumps(index))
    done = _verified(tmp_path, packed.key)
    assert (done.returncode, done.stderr) == (1, "") and "RESULT    FAILED" in done.stdout
    assert any(f"{folder.name}/" in line for line in done.stdout.splitlines() if line.startswith(("WRONG", "MISSING")))
