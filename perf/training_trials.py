"""Whole trials for the training figures: many of one unchanged workload, and a GPU's declared ones."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from datetime import datetime, timezone
from itertools import combinations
from typing import Any

from plumbline.declarations import Declarations, Provider, Trial, criteria_hash, installation_paths, series_key, spec_hash, trial_id
from plumbline.declarations.installation import override_home
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.results import ResultDocument

PROVIDER = "local-2core"
CAMPAIGN = "aa-training"
ON_A_GPU = (("pretrain-1b-gpu", "bf16"), ("pretrain-1b-gpu", "fp8"))


def no_change(declared: Declarations, workload: str, count: int, until: float) -> dict[str, Any]:
    """Up to `count` trials until the deadline (monotonic seconds), compared pairwise as by `plumbline compare`."""
    # Imported here: a GPU machine has no archive.
    from aa_inference import CALM, judged, scatter

    from plumbline.answers.compare import compare_named
    from plumbline.archive import open_archive
    from plumbline.launch.plan import RunRequest, plan
    from plumbline.workflows.run import run_directly

    home = installation_paths().home / "aa-training"
    shutil.rmtree(home, ignore_errors=True)
    documents: list[ResultDocument] = []
    with override_home(home):
        request = RunRequest(CAMPAIGN, "false alarms", "02:00", (workload,), repeats=count)
        longest = 0.0
        for trial in plan(declared, declared.providers[PROVIDER], request, datetime.now(timezone.utc)):
            began = time.monotonic()
            if documents and began + longest > until:
                break
            documents.append(document := run_directly(trial).document)
            longest = max(longest, time.monotonic() - began)
            why = "; ".join(reason.detail for reason in document.validity.reasons)
            print(f"  {trial.repeat}: {document.validity.status} in {time.monotonic() - began:.0f} s  {why}", flush=True)
        with open_archive() as archive:
            pairs = [
                compare_named(archive, declared, a.trial.trial_id, b.trial.trial_id).comparisons[0] for a, b in combinations(documents, 2)
            ]
    verdicts = Counter(pair.verdict or "not comparable" for pair in pairs)
    alarms = [row for pair in pairs for row in judged(pair) if row.verdict not in CALM]
    statuses = ", ".join(f"{n} {status}" for status, n in Counter(d.validity.status for d in documents).items())
    counts = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in verdicts.items())
    return {
        "said": f"{len(documents)} trials of {workload} ({statuses}); {len(pairs)} pairs: {counts}; false alarms: {len(alarms)}.",
        "verdicts": dict(verdicts),
        "alarms": [{"metric": row.metric, "statistic": row.statistic, "effect": row.effect, "verdict": row.verdict} for row in alarms],
        "scatter": scatter(documents, judged(pairs[0])) if pairs else [],
    }


def on_this_gpu(declared: Declarations) -> list[dict[str, Any]]:
    """Results of one GPU's trials, straight from the harness."""
    from plumbline.harness.run import run

    local = declared.providers[PROVIDER]
    gpu = local.model_copy(update={"name": "this-gpu", "accelerator": local.accelerator.model_copy(update={"kind": "nvidia", "count": 1})})
    workloads = []
    for name, precision in ON_A_GPU:
        declared_one = declared.workloads[name]
        assert isinstance(declared_one, TrainingWorkload)
        workload = declared_one.model_copy(update={"precision": precision})
        document = run(_trial(declared, gpu, workload, f"perf-training-{precision}"), (installation_paths().home / "gpu-training").as_uri())
        why = "; ".join(reason.detail for reason in document.validity.reasons)
        metrics = [{"metric": row.metric, "phase": row.phase, "value": row.value} for row in document.metrics if row.statistic in _SHOWN]
        workloads.append({"workload": name, "precision": precision, "status": f"{document.validity.status}. {why}", "metrics": metrics})
    return workloads


_SHOWN = ("value", "median", "max", "mean")


def _trial(declared: Declarations, provider: Provider, workload: TrainingWorkload, campaign: str) -> Trial:
    limits = declared.thresholds.validity
    return Trial(
        trial_id=trial_id(campaign, provider, workload, "02:00", 1),
        campaign_id=campaign,
        reason="figures of this machine",
        planned_at=datetime.now(timezone.utc),
        provider=provider,
        workload=workload,
        validity=limits,
        slot="02:00",
        repeat=1,
        series_key=series_key(workload, provider),
        spec_hash=spec_hash(workload),
        criteria_hash=criteria_hash(workload, limits),
    )
