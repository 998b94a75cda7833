"""One finding of each type, as the product makes them, about a series of an archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from plumbline.findings import provider_finding
from plumbline.results.finding import (
    CauseEvidence,
    ChoiceMove,
    EndingHours,
    Finding,
    FindingKind,
    Member,
    PriceMove,
    PromisedCredit,
    finding_id,
)
from plumbline.results.sample import Series

_DAY = "2026-10-05"


def finding_examples(series_key: str, campaign: str, baseline: str) -> dict[str, Finding]:
    """Type → a finding of it. `campaign`: the series' newest one, which shows it; `baseline`: an earlier one."""
    series = Series.parse(series_key)
    metric = "step_time" if series.kind == "training" else "output_token_throughput"
    worse = 0.09 if series.kind == "training" else -0.09

    def of_series(kind: FindingKind, subject: str, title: str, **fields: Any) -> Finding:
        return Finding(
            finding_id=finding_id(series.provider, campaign, kind, subject),
            series_key=series_key,
            campaign_id=campaign,
            kind=kind,
            severity="warn",
            evidence=title,
            explanation="made for a test",
            provider=series.provider,
            workload_kind=series.kind,
            workload=series.workload,
            subject=subject,
            title=title,
            baseline_campaigns=(baseline,),
            series=(series_key,),
            standing=(series_key,),
            **fields,
        )

    def of_provider(kind: FindingKind, subject: str, title: str, **fields: Any) -> Finding:
        made: Finding = provider_finding(
            fields.pop("provider", series.provider),
            kind,
            subject,
            began=_DAY,
            since=_DAY,
            severity="warn",
            title=title,
            explanation="made for a test",
            **fields,
        )
        return made

    moved = Member(metric, f"{metric} {worse:+.1%}", worse, worse - 0.01, worse + 0.01, verdict="regressed", series_key=series_key)
    driver = Member("driver.version", "driver and CUDA: driver 550.90.07 → 570.86.15 (3 of 3 trials)")
    lasting = {"effect": 0.3, "prices": (PriceMove(series.provider, 23.92, 31.2),)}
    pooled = CauseEvidence(
        ("driver.version",), ("driver 570.86.15",), "regressed", (series.provider, "other"), (), 2, 2, 2, 4, 0.01, clouds=2
    )
    build: dict[str, Callable[[], Finding]] = {
        "performance": lambda: of_series(
            "performance",
            "performance",
            f"{metric} {worse:+.1%}",
            members=(moved,),
            effect=worse,
            metric=metric,
            ci_low=worse,
            ci_high=worse,
        ),
        "environment": lambda: of_series(
            "environment", "environment", "environment changed: driver", members=(driver,), attributed_to=("driver.version",)
        ),
        "environment_check": lambda: of_provider(
            "environment", "environment", "environment changed: driver", members=(driver,), attributed_to=("driver.version",)
        ),
        "launches": lambda: of_series(
            "reliability", "launches", "3 of 9 attempts failed", members=(Member("insufficient_capacity", "insufficient_capacity × 3"),)
        ),
        "gpu_errors": lambda: of_series(
            "reliability", "gpu_errors", "GPU errors in 2 of 9 attempts", members=(Member("gpu_xid", "gpu_xid × 2"),)
        ),
        "missing_trials": lambda: of_series("missing_data", "trials", "2 of 9 planned trials left no result"),
        "silence": lambda: of_series("missing_data", "silence", "stopped reporting"),
        "unusable": lambda: of_series(
            "missing_data", f"unusable {series.kind} {series.workload}@{series.version}", "no usable result: 9 of 9"
        ),
        "cause": lambda: of_series(
            "performance",
            "cause/driver.version 570.86.15",
            "driver 570.86.15: 9 % slower in 2 of 2 trainings",
            members=(moved,),
            cause=pooled,
            effect=0.09,
            attributed_to=("driver.version",),
        ),
        "shared_change": lambda: of_series(
            "environment",
            "cause/driver.version 580.10",
            "driver 580.10: no change of 2 trainings beyond your 5 % threshold at 2 providers",
            cause=replace(pooled, names=("driver 580.10",), verdict="unchanged"),
            attributed_to=("driver.version",),
        ),
        "probe": lambda: of_provider(
            "performance",
            "probe",
            "slower in probes: matmul −9 %",
            effect=-0.09,
            metric="matmul_tflops",
            members=(Member("matmul_tflops", "matmul −9 %", -0.09, verdict="regressed"),),
        ),
        "check_failing": lambda: of_provider("missing_data", "watch", f"environment check failing since {_DAY}"),
        "price_source": lambda: of_provider("missing_data", "price source gpuhunt", f"gpuhunt reports no price since {_DAY}"),
        "budget": lambda: of_provider("missing_data", "budget", "budget of 2026-10 reached: 4 of 9 trials skipped"),
        "uptime_outage": lambda: of_provider(
            "reliability", "outage/uptime", f"down since {_DAY} 00:05 UTC", members=(Member("outage/uptime", "server error"),)
        ),
        "capacity_outage": lambda: of_provider(
            "reliability", "outage/capacity", f"no capacity since {_DAY} 00:05 UTC", members=(Member("outage/capacity", "no capacity"),)
        ),
        "node": lambda: of_provider("reliability", "node/node-3", "node node-3 is slow: matmul −8 % from the fleet in acceptance accept-1"),
        "promise": lambda: of_provider(
            "reliability",
            "promise/availability in 2026-09",
            "broke its promise of availability in 2026-09",
            consequence="98.387 % instead of 99.9 %",
            credit=PromisedCredit(0.25, "2026-09", "2099-10-30"),
        ),
        "contradiction": lambda: of_provider(
            "reliability",
            "contradiction/0123456789ab/1",
            f"the operations log says 720 h down from {_DAY} 00:00 UTC, checks were answered in 719 h of it",
        ),
        "price": lambda: of_provider(
            "price",
            "price on-demand",
            "on-demand price 2.99 → 3.90 USD per GPU-hour (+30 %)",
            members=(Member("price.on_demand", "", 0.3),),
            **lasting,
        ),
        "held_price": lambda: of_provider(
            "price",
            "held price on-demand",
            "on-demand price of 3.90 USD per GPU-hour is held",
            members=(Member("price.on_demand", "", 0.3),),
            **lasting,
        ),
        "commitment": lambda: of_provider(
            "price",
            "commitment contract-1 until 2026-11-30",
            "reserved hours of contract-1 end on 2026-11-30",
            consequence="pays 2.40 USD per GPU-hour, 17 % used: do not renew at this price, it costs about 9,100 USD a month more than other",
            ending=EndingHours("2026-11-30", 14_016.0, -9_100.0),
        ),
        "invoice": lambda: of_provider("price", "invoice hours", "invoice october.csv: hours, 3 times, first in line 4"),
        "first_choice": lambda: of_provider(
            "price",
            f"winner/platform/{series.kind}/{series.workload}",
            f"first choice of team platform for {series.kind}: other instead of {series.provider}",
            members=(Member("other", "1. other (91 %)"),),
            moves=(ChoiceMove("platform", series.kind, series.provider, "other"),),
            causes=(f"{series.provider} raised its price 30 % on 5 October 2026",),
            instead_of=series.provider,
            **lasting,
        ),
        "installation": lambda: of_provider(
            "self", "dag_paused provider_watch", "provider_watch is paused", provider="plumbline", remedy="unpause it"
        ),
    }
    return {name: make() for name, make in build.items()}
