"""One check over a table in which every row is a case of its own: Great Expectations is slow to start and fast per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import (
    FACTS,
    PLANNED,
    document,
    failed,
    inference_metrics,
    inference_workload,
    provider,
    training_metrics,
    training_workload,
    trial,
)

from plumbline.declarations import Trial
from plumbline.quality import QualityReport, check
from plumbline.results import Curve, Environment, Event, LaunchRecord, MetricRow, PodRecord, Point, ResultDocument, Validity, metric_row

HOSTED = provider("hosted", launcher={"kind": "endpoint", "url": "http://127.0.0.1:8000", "protocol": "kserve_http", "model": "gpt"})


@dataclass
class Case:
    """Documents of one trial, how it was planned, and the codes of all reasons that its verdict must have."""

    documents: list[ResultDocument]
    planned: list[Trial]
    codes: set[str] = field(default_factory=set)
    action: str = "accept"
    says: str = ""


def forged(original: ResultDocument, **changes: Any) -> ResultDocument:
    """A document that the model would refuse, with a checksum that holds: as if its reader had been older or careless."""
    changed = original.model_copy(update=changes)
    return changed.model_copy(update={"checksum": changed.content_hash()})


def replaced(rows: list[MetricRow], new: MetricRow) -> list[MetricRow]:
    """The rows with one of them replaced by phase, metric and statistic, or added."""
    return [r for r in rows if (r.phase, r.metric, r.statistic) != (new.phase, new.metric, new.statistic)] + [new]


def curve(*values: float | None) -> Curve:
    """First tokens by prompt length: of 128 tokens, 256 …"""
    points = tuple(Point(at=128 * (k + 1), value=value, n=5) for k, value in enumerate(values))
    return Curve(phase="context", along="input_tokens", metric="time_to_first_token", statistic="p50", unit="s", points=points)


def without(rows: list[MetricRow], metric: str) -> list[MetricRow]:
    return [r for r in rows if r.metric != metric]


class Cases:
    """Builds the cases; each gets a repeat of its own."""

    def __init__(self) -> None:
        self.all: dict[str, Case] = {}

    def asked(self, kind: str = "training", **fields: Any) -> Trial:
        return trial(kind, repeat=len(self.all) + 1, **fields)

    def good(self, name: str, *documents: ResultDocument, planned: Trial | None = None) -> None:
        self.all[name] = Case(list(documents), [planned or documents[0].trial])

    def bad(self, name: str, action: str, codes: str, says: str, *documents: ResultDocument, planned: Trial | None = None) -> None:
        self.all[name] = Case(list(documents), [planned or documents[0].trial], set(codes.split()), action, says)

    def metrics(self, name: str, codes: str, says: str, rows: list[MetricRow], kind: str = "training") -> None:
        self.bad(name, "reject", codes, says, document(self.asked(kind), metrics=rows))


def on_node(asked: Trial, **facts: str) -> ResultDocument:
    """Of a trial whose pod's node had these facts."""
    pod = PodRecord(name="trial-0", rank=0, node="node-7", facts={f"host.{name}": value for name, value in facts.items()})
    return document(asked).with_launch(LaunchRecord(launcher="kubernetes", events=(), pods=(pod,)))


def must_not_fire(cases: Cases) -> None:
    good = cases.good
    good("training", document(cases.asked()))
    good("inference", document(cases.asked("inference")))
    good("degraded", document(cases.asked(), status="degraded"))
    good("failed without any number", failed(cases.asked()))
    good("invalid with impossible numbers", document(cases.asked(), status="invalid", metrics=[metric_row("step_time", -1.0, 0)]))
    asked = cases.asked()
    good("failed, then repeated", failed(asked), document(asked.model_copy(update={"attempt": 2})), planned=asked)
    good("simulated, so without evidence", document(cases.asked(), evidence=(), simulated=True))
    good("a curve with a length that nobody was answered at", document(cases.asked("inference"), curves=(curve(0.1, 0.2, None),)))
    steady = inference_metrics()
    good("no request met the slo", document(cases.asked("inference"), metrics=replaced(steady, metric_row("goodput", 0.0, 60))))
    good(
        "too few requests for a p99",
        document(
            cases.asked("inference"),
            metrics=[r if r.statistic != "p99" else metric_row(r.metric, None, 60, statistic="p99") for r in steady],
        ),
    )
    good(
        "percentiles that are equal",
        document(
            cases.asked("inference"),
            metrics=[
                metric_row(r.metric, 0.1, r.n, statistic=r.statistic) if "latency" in r.metric and r.phase == "steady" else r
                for r in steady
            ],
        ),
    )
    late = Event(name="harness_finished", utc=PLANNED + timedelta(days=1))
    early = Event(name="harness_started", utc=PLANNED - timedelta(minutes=4))
    good("a clock four minutes off", document(cases.asked(), timeline=(early, late)))
    with_fault = training_workload(fault={"inject": "rank_kill", "at_step": 15}, acceptance=["median step_time <= 1s in steady"])
    good("a fault and a criterion, both measured", document(cases.asked(workload=with_fault)))
    good("no fault, so no restart", document(cases.asked(), metrics=without(training_metrics(), "restart_penalty")))
    absent = [metric_row(f"matmul_tflops_{name}", None, 0, phase="environment", reason="no kernel image") for name in ("fp8", "bf16")]
    good("probes that failed and say why", document(cases.asked(), metrics=[*training_metrics(), *absent]))
    good("an absent number with no observations", document(cases.asked(), metrics=[*training_metrics(), metric_row("queue_time", None, 0)]))

    good("a node in the declared zone", on_node(cases.asked(where=provider(zone="here-1")), region="Here", zone="here-1"))
    good("a zone of an undeclared name", on_node(cases.asked(), region="here", zone="here-2"))
    outside = cases.asked("inference", where=HOSTED, workload=inference_workload(server={"backend": "external"}))
    seen_from_here = {f"client.{name}": value for name, value in FACTS.items()}
    good("a hosted model", document(outside, metrics=without(steady, "time_to_ready"), facts=seen_from_here))


def must_fire(cases: Cases) -> None:
    bad, metrics = cases.bad, cases.metrics
    bad("not planned", "reject", "not_planned", "expected a trial of this campaign's plan", document(cases.asked()), planned=trial())
    asked = cases.asked()
    bad(
        "duplicate",
        "reject",
        "duplicate",
        "attempt is 1; expected one document for each",
        document(asked),
        document(asked, metrics=training_metrics(0.2)),
    )
    bad(
        "newer schema",
        "reject",
        "schema_version",
        "schema_version is 2; expected schema_version 1",
        forged(document(cases.asked()), schema_version=2),
    )
    bad(
        "changed after it was sealed",
        "reject",
        "checksum",
        "checksum_holds is False",
        document(cases.asked()).model_copy(update={"harness_version": "9"}),
    )
    unknown = Validity.model_construct(status="splendid", reasons=(), failure_class=None)
    bad("unknown status", "reject", "status", "status is splendid", forged(document(cases.asked()), validity=unknown))
    asked = cases.asked()
    harder = asked.model_copy(update={"spec_hash": "00" * 32})
    bad("not what was planned", "reject", "spec_changed", f"planned_spec_hash is {'00' * 32}", document(asked), planned=harder)
    asked = cases.asked()
    younger = asked.model_copy(update={"criteria_hash": "11" * 32})
    bad("judged by other criteria", "reject", "criteria_changed", f"planned_criteria_hash is {'11' * 32}", document(asked), planned=younger)
    twice = [*training_metrics(), metric_row("data_wait_time", 0.5, 20)]
    bad(
        "a metric twice",
        "reject",
        "repeated_metric",
        "repeated_metrics is steady data_wait_time mean",
        document(cases.asked(), metrics=twice),
    )
    future = Event(name="harness_finished", utc=PLANNED + timedelta(days=36500))
    bad(
        "from the future",
        "reject",
        "from_the_future",
        "expected a trial that ended in the past",
        document(cases.asked(), timeline=(future,)),
    )
    before = Event(name="harness_started", utc=PLANNED - timedelta(hours=1))
    bad("before its plan", "annotate", "before_its_plan", "seconds_before_plan is 3600;", document(cases.asked(), timeline=(before,)))
    bad(
        "no environment",
        "reject",
        "no_environment environment_incomplete",
        "environment_hash is absent",
        forged(document(cases.asked()), environment=None),
    )
    part = Environment.of({k: v for k, v in FACTS.items() if k != "os.kernel"})
    bad(
        "environment without a kernel",
        "annotate",
        "environment_incomplete",
        "fact os.kernel is absent",
        document(cases.asked(), environment=part),
    )
    bad("no evidence", "annotate", "no_evidence", "evidence_files is 0", document(cases.asked(), evidence=()))
    rows = training_metrics()
    metrics("a value from nothing", "no_observations", "smallest_n is 0", [*rows, metric_row("queue_time", 0.1, 0)])
    metrics("no step time", "metric_missing", "missing_numbers is steady.step_time.median;", without(rows, "step_time"))
    metrics(
        "an absent step time",
        "metric_missing",
        "missing_numbers is steady.step_time.median;",
        replaced(rows, metric_row("step_time", None, 20)),
    )
    metrics(
        "no goodput", "metric_missing", "missing_numbers is steady.goodput.value;", without(inference_metrics(), "goodput"), "inference"
    )
    with_fault = training_workload(fault={"inject": "rank_kill", "at_step": 15})
    unrecovered = document(cases.asked(workload=with_fault), metrics=without(rows, "restart_penalty"))
    bad("a fault without a recovery", "reject", "metric_missing", "missing_numbers is recovery.restart_penalty.value", unrecovered)
    upside_down = replaced(rows, metric_row("step_time", 0.1, 20, ci=(0.2, 0.05)))
    bad(
        "an interval upside down",
        "annotate",
        "broken_interval",
        "broken_intervals is steady step_time median",
        document(cases.asked(), metrics=upside_down),
    )
    bad(
        "a curve below zero",
        "reject",
        "impossible_point",
        "impossible_points is -1 at 256 of context time_to_first_token p50",
        document(cases.asked("inference"), curves=(curve(0.1, -1.0),)),
    )
    ttft = inference_workload(acceptance=["p99 queue_time <= 1s in steady"])
    bad(
        "a criterion without a number",
        "annotate",
        "criterion_unmeasured",
        "unmeasured_criteria is p99 queue_time <= 1s in steady",
        document(cases.asked("inference", workload=ttft)),
    )
    metrics("steps missing", "steps_missing", "steps_done is 21, steps_declared is 22", training_metrics(steps=19))
    slow_start = [
        metric_row(r.metric, 0.08, r.n, statistic=r.statistic) if r.metric == "time_to_first_token" else r for r in inference_metrics()
    ]
    metrics(
        "a token after the last one",
        "latency_order",
        "request_scheduled_latency.p50 is 0.051; expected at least steady.time_to_first_token.p50, which is 0.08",
        slow_start,
        "inference",
    )
    metrics(
        "falling percentiles",
        "percentile_order",
        "steady.step_time.p99 is 0.11; expected at least steady.step_time.p95, which is 0.12",
        replaced(rows, metric_row("step_time", 0.11, 20, statistic="p99")),
    )
    for metric, value, statistic, kind in (
        ("step_time", -0.1, "median", "training"),
        ("step_time", 0.0, "median", "training"),
        ("step_time", 2e5, "p99", "training"),
        ("tokens_per_second", 0.0, "median", "training"),
        ("tokens_per_second", 1e12, "median", "training"),
        ("data_wait_time", -1e-6, "mean", "training"),
        ("training_goodput", 1.01, "value", "training"),
        ("model_flops_utilization", 1.5, "median", "training"),
        ("matmul_tflops", -1.0, "max", "training"),
        ("error_rate", 1.5, "value", "inference"),
        ("achieved_rate_ratio", -0.1, "value", "inference"),
        ("goodput", -1.0, "value", "inference"),
        ("time_to_ready", 1e6, "value", "inference"),
    ):
        given = training_metrics() if kind == "training" else inference_metrics()
        new = next(
            (
                r.model_copy(update={"value": value, "ci_low": None, "ci_high": None})
                for r in given
                if (r.metric, r.statistic) == (metric, statistic)
            ),
            None,
        )
        assert new is not None
        metrics(
            f"{metric} {statistic} of {value}", "out_of_range", f"{metric}.{statistic} is {value:.6g}; expected", replaced(given, new), kind
        )
    where = "expected nodes in the provider's declared region and zone"
    other = f"other_places is host.zone here-2 of node-7 (lab-2core declares here-1); {where}"
    bad(
        "another zone",
        "annotate",
        "node_elsewhere",
        other,
        on_node(cases.asked(where=provider(zone="here-1")), region="here", zone="here-2"),
    )
    bad("another region", "annotate", "node_elsewhere", "host.region there of node-7", on_node(cases.asked(), region="there"))
    worst = document(cases.asked(), metrics=replaced(rows, metric_row("step_time", -1.0, 20)), evidence=())
    bad("a warning beside a critical one", "reject", "no_evidence out_of_range", "step_time.median is -1", worst)


def all_cases() -> dict[str, Case]:
    cases = Cases()
    must_not_fire(cases)
    must_fire(cases)
    return cases.all


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Case], QualityReport, Path]]:
    """All cases and the report on them together."""
    cases = all_cases()
    docs = tmp_path_factory.mktemp("docs")
    documents = [d for case in cases.values() for d in case.documents]
    yield cases, check(documents, [t for case in cases.values() for t in case.planned], docs, "cases"), docs
