"""`make demo-own-model`: a model of one's own on vLLM, in bf16 and int8 on both local providers: speed, cost and right answers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import typer
import yaml
from small_llama import make, questions

from plumbline.analysis.conclusions import conclude
from plumbline.archive import open_archive
from plumbline.cli.campaign import CampaignProgress, stop_on_signal
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, emit, err, fail, out, table
from plumbline.cli.verdict import show_verdict
from plumbline.declarations import DeclarationError, installation_paths, load
from plumbline.declarations.installation import example_declarations, override_home
from plumbline.embedded.campaign import CampaignError, run_campaign
from plumbline.embedded.client import AirflowError
from plumbline.embedded.server import AirflowServer, ServerError
from plumbline.harness.engine_python import VARIABLE as ENGINE_PYTHON
from plumbline.launch.plan import PlanError, RunRequest, planned_trials
from plumbline.metrics import Phase
from plumbline.metrics.formatting import format_percent, format_quantity
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results import ResultDocument
from plumbline.workflows.report import campaign_data

PROVIDERS = ("local-2core", "local-1core")
BF16, INT8 = "own-model-bf16", "own-model-int8"
_PROMPTS = 100
_LIMIT_TOKENS = 16


def main(as_json: Json = False) -> None:
    """Train a small model, serve it with vLLM in bf16 and int8 on both local providers, and compare speed, cost and correct answers."""
    if not os.environ.get(ENGINE_PYTHON):
        fail(f"{ENGINE_PYTHON} is not set; expected the Python of an environment with vLLM, as `make demo-own-model` sets it")
    home = installation_paths().home / "demo-own-model"
    with stop_on_signal(), CampaignProgress() as watching:
        checkpoints = make(home / "models", watching.status)
        _clear_results(home)
        with override_home(home, stage(home, *checkpoints, questions())):
            request = RunRequest(f"own-model-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}", "demonstration of an own model")
            try:
                declared = load()
                planned = planned_trials(declared, request, PROVIDERS)
                with AirflowServer(installation_paths().airflow_home).start(watching.status) as server:
                    outcome = run_campaign(server, declared, request, planned, watching.state)
                    watching.status("stopping Airflow")
            except (CampaignError, ServerError, AirflowError, DeclarationError, PlanError) as error:
                fail(str(error), FAILED)
            with open_archive() as archive:
                data = campaign_data(archive, request.campaign_id)
    rows = rows_of(data.documents)

    def tell() -> None:
        shown = table("", "provider", "precision", "", "first token", "per token", "tokens of bf16", "right answers")
        for row in rows:
            shown.add_row(*astuple(row))
        out.print(shown)
        show_verdict(campaign_verdict(conclude(data)))
        out.print(
            f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} PLUMBLINE_CONFIG={home / 'config'} plumbline cost precision"
        )
        if outcome.report:
            out.print(f"report: {outcome.report}")

    emit(as_json, {"rows": rows, "outcome": outcome}, tell)
    for problem in outcome.problems:
        err.print(problem, style="red")
    raise typer.Exit(OK if outcome.complete and all(row.status in ("valid", "degraded") for row in rows) else FAILED)


def _clear_results(home: Path) -> None:
    """Remove what an earlier demonstration measured: what is staged never meets what was measured in earnest."""
    for old in (home / "results", home / "reports", home / "data-docs"):
        shutil.rmtree(old, ignore_errors=True)
    for file in home.glob("archive.db*"):
        file.unlink()


def stage(home: Path, exact: Path, quantised: Path, questions: Iterable[tuple[str, str]]) -> Path:
    """A new configuration below `home` for the two checkpoints; its folder."""
    folder, shipped = home / "config", example_declarations()
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("providers", "workloads/inference", "teams", "prompts", "evaluations"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shipped / "thresholds.yaml", folder)
    for name in PROVIDERS:
        shutil.copy(shipped / "providers" / f"{name}.yaml", folder / "providers")
    lines = list(questions)
    _write_lines(folder / "prompts" / "capitals.jsonl", ({"messages": [{"role": "user", "content": question}]} for question, _ in lines))
    _write_lines(folder / "evaluations" / "capitals.jsonl", ({"prompt": question, "answer": answer} for question, answer in lines))
    reference = {"source": "folder", "path": str(exact), "precision": "bf16"}
    _write_workload(folder, _workload(BF16, reference))
    quality = {"reference": reference, "agreement": "85%", "prompts": 32}
    _write_workload(folder, {**_workload(INT8, {**reference, "path": str(quantised), "precision": "int8"}), "quality": quality})
    weights = {"time_to_first_token": 0.6, "time_per_output_token": 0.4}
    gates = ["error_rate <= 2% in steady", "answer_accuracy >= 80% in cold_start"]
    team = {"name": "product", "inference": {"workloads": [BF16, INT8], "weights": weights, "gates": gates}}
    (folder / "teams" / "product.yaml").write_text(yaml.safe_dump(team, sort_keys=False), encoding="utf-8")
    return folder


def _workload(name: str, model: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": "inference",
        "name": name,
        "version": 1,
        "description": "a model of one's own on vLLM, asked with its own prompts",
        "needs": {"accelerator": "cpu", "count": 1},
        "model": model,
        "server": {"backend": "vllm", "sequences": 16, "prefix_cache": "off", "client_placement": "same_node"},
        "requests": {
            "prompts": {"source": "file", "path": "capitals.jsonl", "format": "messages", "sample": _PROMPTS},
            "text": True,
            "output_tokens": {"constant": _LIMIT_TOKENS},
            "output": "natural",
            "seed": 20261101,
        },
        # No search for the highest rate: on cores that both share, the load generator is at its limit before so small a model.
        "phases": [
            {"name": "warmup", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "2s"},
            {"name": "steady", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "11s"},
        ],
        "request_timeout": "20s",
        "slo": {"time_to_first_token": "500ms", "time_per_output_token": "100ms"},
        "evaluation": {"file": "capitals.jsonl", "output_tokens": _LIMIT_TOKENS, "accuracy": "50%"},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
        "acceptance": ["error_rate <= 2% in steady", "answer_accuracy >= 80% in cold_start"],
    }


@dataclass(frozen=True)
class OwnModelRow:
    """One trial as the demonstration shows it; empty where a figure has no value."""

    provider: str
    precision: str
    status: str
    time_to_first_token: str
    time_per_output_token: str
    agreement: str
    right: str


def rows_of(documents: Iterable[ResultDocument]) -> list[OwnModelRow]:
    """By provider, bf16 before int8."""
    ordered = sorted(documents, key=lambda document: (document.trial.provider.name, document.trial.workload.name))
    return [_row(document) for document in ordered]


def _row(document: ResultDocument) -> OwnModelRow:
    values = {(m.metric, m.statistic, m.phase): m.value for m in document.metrics}

    def shown(metric: str, statistic: str, phase: Phase, unit: str) -> str:
        value = values.get((metric, statistic, phase))
        if value is None:
            return ""
        return format_percent(value, 1) if unit == "ratio" else format_quantity(value, unit)

    workload = document.trial.workload
    return OwnModelRow(
        document.trial.provider.name,
        workload.model.precision,  # type: ignore[union-attr]  # this demonstration serves models only
        document.validity.status,
        shown("time_to_first_token", "p50", "steady", "s"),
        shown("time_per_output_token", "p50", "steady", "s"),
        shown("output_agreement", "value", "cold_start", "ratio"),
        shown("answer_accuracy", "value", "cold_start", "ratio"),
    )


def _write_lines(file: Path, records: Iterable[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")


def _write_workload(folder: Path, workload: dict[str, Any]) -> None:
    file = folder / "workloads" / "inference" / f"{workload['name']}.yaml"
    file.write_text(yaml.safe_dump(workload, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
