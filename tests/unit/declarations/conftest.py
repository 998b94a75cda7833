"""A small folder of declarations that is right, for tests to break one thing in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FILES = {
    "providers/here.yaml": """\
name: here
cloud: local
region: here
instance_type: host
accelerator: {kind: cpu, count: 1}
launcher: {kind: local, cpus: [0], memory: 4GiB, timeout: 10min}
prices:
  - {purchase: on_demand, price: 0.02 USD/h, since: 2026-01-01, source: a test}
sla: {launch_success: 99%, provisioning_lead_time: 30s}
""",
    "workloads/training/gpt.yaml": """\
kind: training
name: gpt
version: 1
needs: {accelerator: cpu}
providers: [here]
model: {architecture: gpt, layers: 2, width: 128, heads: 4, vocabulary: 2048, context: 64}
data: {source: synthetic, tokens: 262144}
batch: {micro: 8, sequence: 64}
precision: fp32
optimizer: {name: adamw, learning_rate: 1.0e-3}
steps: {discard: 10, measure: 120}
checkpoint: {every: 40}
fault: {inject: rank_kill, at_step: 100}
repeats: {per_slot: 2, slots: ["02:00"]}
acceptance:
  - median step_time <= 500ms in steady
""",
    "workloads/inference/chat.yaml": """\
kind: inference
name: chat
version: 1
needs: {accelerator: cpu}
model: {architecture: gpt, layers: 2, width: 128, heads: 4, vocabulary: 2048, context: 128}
server: {backend: python}
requests:
  input_tokens: {normal: {mean: 24, stddev: 6, min: 8, max: 48}}
  output_tokens: {constant: 16}
  seed: 1
phases:
  - {name: warmup, arrivals: {poisson: {rate: 4/s}}, duration: 3s}
  - {name: steady, arrivals: {poisson: {rate: 6/s}}, duration: 15s}
slo: {time_to_first_token: 500ms}
repeats: {per_slot: 2, slots: ["02:00"]}
acceptance:
  - p50 request_scheduled_latency <= 500ms in steady
  - p99 request_scheduled_latency <= 900ms in steady
""",
    "teams/platform.yaml": """\
name: platform
training:
  workloads: [gpt]
  weights: {tokens_per_second: 0.5, step_time: 0.5}
""",
    "thresholds.yaml": """\
validity:
  step_time_cv_degraded: 25%
  step_time_cv_invalid: 100%
  cpu_pressure_degraded: 40%
  cpu_pressure_invalid: 90%
  foreign_cpu_degraded: 15%
  foreign_cpu_invalid: 40%
  dispatch_delay_degraded: 10ms
  dispatch_delay_invalid: 100ms
  achieved_rate_degraded: 99%
  achieved_rate_invalid: 95%
drift:
  confidence: 95%
  false_discovery_rate: 5%
  bootstrap_trials: 2
  metrics:
    step_time: {warn: 2%, page: 5%}
""",
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder; the working folder is its parent, so that messages show `config/…`."""
    root = tmp_path / "config"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def broken(config: Path) -> Callable[[str, str, str], Path]:
    """Replace one piece of text (it must stand there once) in one file."""

    def change(file: str, old: str, new: str) -> Path:
        path = config / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return config

    return change
