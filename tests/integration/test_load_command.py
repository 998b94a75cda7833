"""`plumbline load` against servers whose delays are known, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.golden_triton import Golden
from tests.fakes.openai_server import Hosted, Plan
from typer.testing import CliRunner, Result

from plumbline.cli.app import app

RATE, SECONDS = 100, 3
DELAYS = np.random.default_rng(5).uniform(0.4, 0.9, RATE * SECONDS).tolist()


def load(*words: str) -> Result:
    return CliRunner().invoke(app, ["load", *words])


def loaded(*words: str) -> dict[str, Any]:
    done = load(*words, "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def values(report: dict[str, Any], metric: str) -> dict[str, Any]:
    return {row["statistic"]: row for row in report["metrics"] if row["metric"] == metric}


@pytest.mark.exclusive
def test_latencies_are_those_of_the_server() -> None:
    with Golden(delays_s=DELAYS) as golden:
        report = loaded(
            golden.address, "--model", "vector", "--rate", str(RATE), "--for", f"{SECONDS}s", "--arrivals", "constant", "--timeout", "10s"
        )
    assert (report["requests"], report["finished"], report["errors"]) == (300, 300, {})
    really = [golden.records[i].sent[0] - golden.records[i].received for i in range(RATE * SECONDS)]
    latency = values(report, "request_scheduled_latency")
    for statistic, quantile, tolerance in (("p50", 50, 0.02), ("p99", 99, 0.05)):
        truth = float(np.percentile(really, quantile, method="inverted_cdf"))
        assert latency[statistic]["value"] == pytest.approx(truth, rel=tolerance), statistic
    assert latency["p50"]["ci_low"] < latency["p50"]["value"] < latency["p50"]["ci_high"]
    assert values(report, "request_throughput")["value"]["value"] == pytest.approx(RATE * SECONDS / report["seconds"], rel=1e-6)
    assert not values(report, "time_to_first_token") and not values(report, "goodput")


@pytest.mark.exclusive
def test_a_stream_has_its_first_token_and_its_pace(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"PROMPT_IDS": [1, 2, 3], "MAX_TOKENS": [5]}\n')
    with Golden(first_s=1.0, gap_s=0.1) as golden:
        words = ("--model", "golden", "--rate", "40", "--for", "2s", "--prompts", str(prompts))
        report = loaded(f"grpc://{golden.address}", *words)
        shown = load(f"grpc://{golden.address}", *words).output
    assert values(report, "time_to_first_token")["p50"]["value"] == pytest.approx(1.0, rel=0.05)
    assert values(report, "time_per_output_token")["p50"]["value"] == pytest.approx(0.1, rel=0.05)
    assert "time to first token" in shown and "client: " in shown


@pytest.mark.exclusive
def test_an_openai_server_is_asked_for_text() -> None:
    with Hosted(Plan(first_s=0.3, gap_s=0.05)) as hosted:
        report = loaded(
            hosted.url, "--model", "m", "--rate", "20", "--for", "1s", "--output-tokens", "4", "--input-tokens", "16", "--ignore-eos"
        )
    assert values(report, "time_to_first_token")["p50"]["value"] == pytest.approx(0.3, rel=0.05)
    assert report["finished"] == report["requests"] == len(hosted.records) - 1
    assert {record.path for record in hosted.records} == {"/v1/completions"}
    assert hosted.records[0].asked["ignore_eos"] and hosted.records[0].asked["max_tokens"] == 4


def test_conversations_go_to_the_chat_endpoint(tmp_path: Path) -> None:
    said = {"messages": [{"role": "user", "content": "hello"}]}
    (tmp_path / "p.jsonl").write_text(json.dumps(said) + "\n")
    words = ("--model", "m", "--rate", "20", "--for", "0.3s", "--output-tokens", "2", "--prompts", str(tmp_path / "p.jsonl"))
    with Hosted(Plan(key="secret")) as hosted:
        refused = load(hosted.url, *words, "--api", "openai_chat")
        mistaken = load(hosted.url, *words)
        done = CliRunner(env={"OPENAI_API_KEY": "secret"}).invoke(app, ["load", hosted.url, *words, "--api", "openai_chat"])
    assert refused.exit_code == 1 and "refuses the first request" in refused.output and "401" in refused.output
    assert mistaken.exit_code == 2 and "expected --api openai_chat" in mistaken.output
    assert done.exit_code == 0, done.output
    assert hosted.records[-1].path == "/v1/chat/completions" and hosted.records[-1].asked["messages"] == said["messages"]


def test_a_client_that_is_late_says_so() -> None:
    # Ten times what two idle cores send: more requests are open than the client may hold, on any machine.
    with Golden() as golden:
        done = load(golden.address, "--model", "vector", "--rate", "400000", "--for", "1s", "--timeout", "3s", "--json")
    report = json.loads(done.stdout)
    assert report["verdict"] == "invalid" and "use a quieter machine" in report["reason"]
    assert done.exit_code == 1


def test_failed_requests_are_counted_by_class_and_spoil_no_exit_code() -> None:
    with Golden(faults={3: "abort"}) as golden:
        report = loaded(golden.address, "--model", "vector", "--rate", "50", "--for", "1s", "--arrivals", "constant")
    assert (report["finished"], report["errors"]) == (49, {"server_error": 1})
    assert "told to abort" in report["first_error"]


def test_each_error_names_the_flag_and_the_expected_shape(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"IDS": [1, 2]}\n')
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"WORDS": [1]}\n')
    with Golden() as golden:
        cases = {
            (golden.address,): "2 models are ready there; expected --model, one of golden, vector",
            (golden.address, "--model", "nope"): "does not serve the model nope",
            (golden.address, "--model", "golden"): "PROMPT_IDS takes any size ([-1]); expected --prompts FILE",
            (golden.address, "--model", "vector", "--prompts", str(broken)): "IDS has the shape [2]; expected [4] of INT32",
            (golden.address, "--model", "vector", "--prompts", str(strange)): "has no input WORDS; expected IDS",
            (golden.address, "--prompts", str(tmp_path / "none"), "--model", "vector"): "cannot be read",
            (f"http://{golden.address}/v1", "--model", "m"): "does not speak HTTP/1.1",
            ("127.0.0.1:1",): "does not answer as a gRPC server",
            ("http://127.0.0.1:1", "--model", "m"): "expected a server such as http://host:8000/v1",
            (golden.address, "--api", "openapi"): "--api",
            (golden.address, "--arrivals", "bursty"): "expected one of constant, poisson",
            ("ftp://host",): "has the scheme ftp; expected grpc://host:8001",
            ("http://host:8000", "--api", "kserve"): "do not fit; expected grpc://host:8001",
            ("http://host/v1/completions",): "expected the path before it",
            ("grpc://host:x",): "no readable port",
            ("http://me:secret@host/v1",): "the URL has a user or password",
        }
        for words, expected in cases.items():
            done = load(*words, "--rate", "10", "--for", "1s")
            assert done.exit_code == 2 and expected in done.output, (words, done.output)
    for rate, lasts, expected in (
        ("fast", "1s", "--rate such as 200"),
        ("10", "1", "--for such as 30s"),
        ("0", "1s", "above 0"),
        ("1", "0.1s", "expected 1 to"),
    ):
        done = load("grpc://host:1", "--rate", rate, "--for", lasts)
        assert done.exit_code == 2 and expected in done.output, done.output


def test_no_airflow_and_no_archive_are_imported() -> None:
    code = "import sys, plumbline.cli.load, plumbline.workflows.load_server; print([m for m in ('airflow', 'sqlalchemy', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
