"""A workload's own prompts: to a real Triton as text, and to a hosted model as conversations that nothing but the request may hold."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fakes.openai_server import Hosted, Plan
from tests.fakes.trials import a_trial, local_provider
from tests.integration.test_endpoint_launcher import everything_written
from tests.integration.test_inference import measure
from tests.unit.declarations.workloads.test_prompts import declare, lines

from plumbline.declarations import Provider, installation_paths
from plumbline.declarations.workloads.prompts import load_prompts
from plumbline.harness.inference.load.prompts import shipped_tokenizer
from plumbline.launch.collect import collect
from plumbline.launch.endpoint import EndpointClientLauncher
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.metrics import NATURAL_LENGTHS
from plumbline.presentation.scorecard_rows import trial_verdicts
from plumbline.results import ResultStore

PHASES = [
    {"name": "warmup", "arrivals": {"constant": {"rate": "5/s"}}, "duration": "0.4s"},
    {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "1s"},
]
SECRET = "the recipe of our grandmother"


def with_prompts(folder: Path, prompts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A declaration with a prompt file of `folder`, read as the loader does."""
    data = declare(**{"source": "file", **prompts}) | {"acceptance": [], "phases": PHASES}
    data["requests"] |= changes.pop("requests", {})
    assert load_prompts(data, folder) == []
    return data | changes


def test_own_text_goes_to_the_server_whose_tokenizer_counts_as_many_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"prompt number {i}, {'and more of it ' * i}" for i in range(1, 6)]
    (tmp_path / "p.txt").write_text("".join(f"{text}\n" for text in texts))
    monkeypatch.setenv("PROMPTS_FOLDER", str(tmp_path))
    trial = a_trial("inference", declare=with_prompts(tmp_path, {"path": "p.txt", "format": "text", "private": True}))
    result = measure(trial, tmp_path)
    rows = {(row.metric, row.statistic): row.value for row in result.metrics if row.phase == "steady"}
    # The model reports how many tokens it read of each prompt; another number is an error.
    assert rows["error_rate", "value"] == 0
    counted = sorted(len(shipped_tokenizer().encode(text).ids) for text in texts)
    lengths = {item.signal: item for item in result.telemetry if item.phase == "steady" and item.unit == "tokens"}
    assert (lengths["input_tokens"].n, lengths["input_tokens"].min, lengths["input_tokens"].max) == (10, counted[0], counted[-1])
    assert lengths["input_tokens"].p50 in counted and lengths["output_tokens"].p50 == 4
    assert result.facts["prompts.sampled"] == 5 and result.facts["prompts.sent_again"] == 7
    assert result.facts["prompts.tokens_counted_by"] == "tokenizer"
    (sent,) = (item for item in result.evidence if item.kind == "requests")
    assert sorted(set(pq.read_table(sent.path)["input_tokens"].to_pylist())) == counted
    (log,) = (item for item in result.evidence if item.kind == "server_log")
    lines_of_log = log.path.read_text()
    # Triton logs its end, which comes after the requests: a server's log may quote them from the first one on.
    assert "plumbline-model" in lines_of_log and "Waiting for in-flight requests" not in lines_of_log


def test_a_trial_gets_the_credentials_of_its_prompts_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-the-prompts-store")
    program = tmp_path / "program.py"
    program.write_text("import os; print('found', os.environ.get('AWS_ACCESS_KEY_ID')); raise SystemExit(1)")

    def printed(url: str) -> str:
        prompts = {"source": "url", "url": url, "format": "text", "sha256": "0" * 64}
        trial = a_trial("inference", declare=declare(**prompts) | {"acceptance": [], "phases": PHASES})
        return ProcessLauncher([sys.executable, str(program)]).launch(trial, ResultStore(installation_paths().results_url)).log_tail

    assert "found id-of-the-prompts-store" in printed("s3://prompts/p.jsonl")
    assert "found None" in printed("https://example.com/p.jsonl")


def test_private_conversations_leave_no_text_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, temporary, prompts = (tmp_path / name for name in ("home", "tmp", "prompts"))
    for folder in (home, temporary, prompts):
        folder.mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(home))
    monkeypatch.setenv("PROMPTS_FOLDER", str(prompts))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    said = [{"role": role, "content": f"{role} {i}: {SECRET}"} for i in range(3) for role in ("user", "assistant")]
    (prompts / "c.jsonl").write_bytes(lines({"messages": said}, {"messages": said[:1]}))
    acceptance = ["p50 request_latency <= 10s in steady", "p50 time_to_first_token <= 10s in steady"]
    declared = with_prompts(
        prompts,
        {"path": "c.jsonl", "format": "messages", "private": True},
        requests={"turns": {"count": 2, "think": "0.05s"}, "output": "natural", "output_tokens": {"constant": 8}},
        server={"backend": "external"},
        acceptance=acceptance,
    )
    # Its error repeats what it was asked, as servers do that quote an invalid request.
    plan = Plan(first_s=0.01, faults={4: 500, 6: "short", 8: "short"}, says=f"invalid: {SECRET}")
    with Hosted(plan) as hosted:
        endpoint = {"kind": "endpoint", "url": f"{hosted.url}/v1", "protocol": "openai_chat", "model": "chat", "timeout": "60s"}
        data = json.loads(local_provider().model_dump_json()) | {"name": "hosted", "launcher": endpoint}
        trial = a_trial("inference", Provider.model_validate_json(json.dumps(data)), declared)
        store = ResultStore(installation_paths().results_url)
        record = EndpointClientLauncher().launch(trial, store)
        document = collect(store, trial.campaign_id, trial.trial_id)[-1]
    assert document.validity.status != "failed", record.log_tail
    conversations = [entry.asked["messages"] for entry in hosted.records]
    assert said[:1] in conversations and said[:3] in conversations and max(map(len, conversations)) == 3
    assert all("min_tokens" not in entry.asked and entry.asked["max_tokens"] == 8 for entry in hosted.records)
    facts = dict(document.environment.facts) if document.environment else {}
    assert facts["requests.output"] == "natural" and facts["prompts.tokens_counted_by"] == "server"
    lengths = {item.signal: item for item in document.telemetry if item.phase == "steady" and item.unit == "tokens"}
    assert lengths["input_tokens"].min == lengths["input_tokens"].max == 11, "as the server counts"
    assert (lengths["output_tokens"].min, lengths["output_tokens"].max) == (7, 8)
    rows = {(row.metric, row.phase): row for row in document.metrics}
    assert rows["error_rate", "steady"].value == pytest.approx(1 / rows["error_rate", "steady"].n)
    written = everything_written(home, temporary)
    # Parquet is compressed: a text in it would not show.
    tables = {file.stem: pq.read_table(file).to_pydict() for file in home.rglob("*.parquet")}
    assert any(detail and detail.startswith("HTTP 500") for detail in tables["requests"]["detail"])
    for fragment in ("recipe", "grandmother"):
        assert fragment.encode() not in written
        assert fragment not in repr(tables)
    criteria = dict(trial_verdicts(document))
    assert [NATURAL_LENGTHS in cell.explanation for cell in criteria.values()] == [True, False]
    assert rows["request_latency", "steady"].method == NATURAL_LENGTHS and rows["time_to_first_token", "steady"].method is None
