"""A made-up finding with everything that a message can show, so that a channel's people can see one before anything drifts."""

from __future__ import annotations

from plumbline.alerts.context import Context
from plumbline.alerts.links import links
from plumbline.drift import Finding, Member
from plumbline.drift.history import History, Point

_SERIES = "training/gpt-1b@2/h1/torch/example-eks-p5/us-east-1/p5.48xlarge"
_MONTHS = ("2026-03", "2026-04", "2026-05", "2026-06", "2026-07", "2026-08", "2026-09", "2026-10", "2026-11")
_STEP_MS = (412.0, 411.2, 412.9, 411.7, 412.4, 411.5, 412.2, 411.9, 444.6)
_SCATTER = (0.996, 0.998, 0.999, 1.0, 1.0, 1.001, 1.001, 1.003, 1.004)

FINDING = Finding(
    finding_id="example00000",
    series_key=_SERIES,
    campaign_id="2026-11",
    kind="performance",
    severity="page",
    headline=(
        "PAGE  example-eks-p5 · training gpt-1b · step_time +7.9 % (95 %: +6.8 … +9.1), since campaign 2026-11, 9 of 9 repeats, "
        "and 1 more series"
    ),
    explanation=(
        "explained by: driver 550.90.07 → 570.86.15 and SM clock cap 1980 → 1755 MHz (3 of 3 nodes); matmul −8.2 % agrees; "
        "memory bandwidth unchanged"
    ),
    provider="example-eks-p5",
    workload_kind="training",
    workload="gpt-1b",
    subject="performance",
    title="step_time +7.9 %",
    effect=0.079,
    ci_low=0.068,
    ci_high=0.091,
    metric="step_time",
    members=(
        Member("step_time", "training gpt-1b: step_time +7.9 %", 0.079, 0.068, 0.091, verdict="regressed", series_key=_SERIES),
        Member("tokens_per_second", "training gpt-1b: tokens_per_second −7.3 %", -0.073, -0.083, -0.064, verdict="regressed"),
        Member("inter_token_latency", "inference chat-8b: inter_token_latency +6.1 %", 0.061, 0.048, 0.075, verdict="regressed"),
    ),
    attributed_to=("nvidia.driver", "gpu.clock_cap"),
    baseline_campaigns=("2026-09", "2026-10"),
    series=(_SERIES,),
    standing=(_SERIES,),
)

CONTEXT = Context(
    owner="S0123456789",
    cost="costs 5,670 USD a month (4,881 … 6,531) at the declared volume: 730 instance-hours, on_demand 98.32 USD/h",
    links=links(FINDING, "https://airflow.example.com", "2026-11.example-eks-p5.training.gpt-1b.0200.r1", asked=True),
)

HISTORY = History(
    title="example-eks-p5 · gpt-1b · step time",
    unit="ms",
    points=tuple(
        Point(month, tuple(step * factor for factor in _SCATTER), month in FINDING.baseline_campaigns)
        for month, step in zip(_MONTHS, _STEP_MS, strict=True)
    ),
    since=len(_MONTHS) - 1,
    change="+7.9 % (95 %: +6.8 … +9.1)",
    level=412.0,
    band=(412.0 * 1.068, 412.0 * 1.091),
)
