"""False alarms and detected changes of inference trials: `python perf/aa_inference.py [--workload W] [--out F.json]`

A/A   ten trials of one workload on this machine, in two alternating campaigns of five; any two trials and both campaigns are compared as
      by `plumbline compare`. Any two trials must be "unchanged" or "insufficient data"; the campaigns may be "suspected", never
      "regressed" or "improved". The table has the scatter of each judged number (CV over the ten)
B     five more trials with half the cores, server included, without a change of the declaration: "regressed" against the ten, with an
      interval that excludes no change

Results go to a separate archive (PLUMBLINE_HOME/aa-inference, recreated). About ten minutes. Exit status 1 if an expectation fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.analysis.drift.comparison import Comparison, MetricComparison
from plumbline.answers.baseline_comparison import compare_with_baselines, workloads_of
from plumbline.answers.compare import compare_named
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, installation_paths, load
from plumbline.declarations.installation import override_home
from plumbline.launch.plan import RunRequest, plan
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_quantity
from plumbline.results import ResultDocument
from plumbline.workflows.run import run_directly

FIRST, SECOND, HALF = "aa-1", "aa-2", "half-the-cores"
CALM = ("unchanged", "insufficient_data")


@contextmanager
def kept_to(cores: set[int]) -> Iterator[None]:
    """Restrict this process and its children to some of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(declared: Declarations, workload: str, provider: str, campaigns: Sequence[str], repeats: int) -> list[ResultDocument]:
    """Run the trials of each campaign, in turn."""
    now = datetime.now(timezone.utc)
    requests = [RunRequest(name, "false alarms", "02:00", (workload,), repeats=repeats) for name in campaigns]
    done = []
    for together in zip(*(plan(declared, declared.providers[provider], request, now) for request in requests), strict=True):
        for trial in together:
            at = time.monotonic()
            done.append(document := run_directly(trial).document)
            why = "; ".join(reason.detail for reason in document.validity.reasons)
            print(f"  {trial.campaign_id} {trial.repeat}: {document.validity.status} in {time.monotonic() - at:.0f} s  {why}", flush=True)
    return done


def against_all(archive: Archive, declared: Declarations, provider: str) -> Comparison:
    """Compare the campaign on half the cores with the ten trials."""
    (series_key, workload), *_ = workloads_of(archive, HALF).items()
    rules = declared.thresholds.drift
    if archive.bootstrap_baseline(series_key, rules) != FIRST or not archive.join_baseline(series_key, SECOND, rules):
        raise RuntimeError(f"{FIRST} and {SECOND} are not a baseline; expected both to be usable")
    (comparison,) = compare_with_baselines(archive, declared, HALF, provider, {series_key: workload})
    return comparison


def judged(comparison: Comparison) -> list[MetricComparison]:
    return [row for row in comparison.rows if row.verdict is not None]


def scatter(documents: Sequence[ResultDocument], rows: Sequence[MetricComparison]) -> list[dict[str, object]]:
    """Median and coefficient of variation of each judged number over the trials."""
    pairs = []
    for row in rows:
        values = [
            m.value
            for d in documents
            for m in d.metrics
            if (m.metric, m.statistic, m.phase) == (row.metric, row.statistic, row.phase) and m.value is not None
        ]
        if len(values) > 1 and (mean := statistics.fmean(values)):
            named = {"metric": row.metric, "statistic": row.statistic, "phase": row.phase, "n": len(values)}
            pairs.append({**named, "median": statistics.median(values), "cv": statistics.stdev(values) / mean, "unit": row.unit})
    return pairs


def main() -> int:
    """Measure, compare, print and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", default="summary-cpu")
    parser.add_argument("--provider", default="local-2core")
    parser.add_argument("--repeats", type=int, default=5, help="trials of each of the three campaigns")
    parser.add_argument("--out", type=Path, help="write the figures to this .json and the table beside it as .md")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("half the cores are taken away; expected at least two usable ones")
    declared, home, began = load(), installation_paths().home / "aa-inference", time.monotonic()
    shutil.rmtree(home, ignore_errors=True)
    with override_home(home):
        print(f"A/A: {2 * options.repeats} trials of {options.workload} on {options.provider}", flush=True)
        documents = run(declared, options.workload, options.provider, (FIRST, SECOND), options.repeats)
        with open_archive() as archive:
            pairs = [
                compare_named(archive, declared, a.trial.trial_id, b.trial.trial_id).comparisons[0] for a, b in combinations(documents, 2)
            ]
            (both,) = compare_named(archive, declared, FIRST, SECOND).comparisons
        print(f"B: {options.repeats} trials on {len(cores) // 2} of {len(cores)} cores", flush=True)
        with kept_to(set(cores[: len(cores) // 2])):
            run(declared, options.workload, options.provider, (HALF,), options.repeats)
        with open_archive() as archive:
            halved = against_all(archive, declared, options.provider)
    alarms = [row for pair in pairs for row in judged(pair) if row.verdict not in CALM]
    alarms += [row for row in judged(both) if row.verdict in ("regressed", "improved")]
    regressed = [row for row in judged(halved) if row.verdict == "regressed" and row.ci_low is not None and row.ci_high is not None]
    sound = [row for row in regressed if row.ci_low is not None and row.ci_high is not None and (row.ci_low > 0 or row.ci_high < 0)]
    figures = {
        "command": f"python perf/aa_inference.py --workload {options.workload} --provider {options.provider} --repeats {options.repeats}",
        "measured": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "cores": len(cores),
        "validity": dict(Counter(d.validity.status for d in documents)),
        "pairs": len(pairs),
        "verdicts_of_pairs": dict(Counter(pair.verdict or "not comparable" for pair in pairs)),
        "verdicts_of_rows_of_pairs": dict(Counter(str(row.verdict) for pair in pairs for row in judged(pair))),
        "verdicts_of_the_campaigns": dict(Counter(str(row.verdict) for row in judged(both))),
        "alarms": [{"metric": r.metric, "statistic": r.statistic, "effect": r.effect, "verdict": r.verdict} for r in alarms],
        "scatter": scatter(documents, judged(both)),
        "half_the_cores": [
            {
                **{name: getattr(row, name) for name in ("metric", "statistic", "phase", "unit", "baseline", "candidate")},
                **{name: getattr(row, name) for name in ("effect", "ci_low", "ci_high", "q", "verdict")},
            }
            for row in judged(halved)
        ],
        "environment": [change.text for change in halved.environment_changes if change.matters],
    }
    text = markdown(figures)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(text, encoding="utf-8")
    return 0 if pairs and not alarms and sound else 1


def markdown(figures: dict) -> str:  # type: ignore[type-arg]
    pairs = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in figures["verdicts_of_pairs"].items())
    campaigns = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in figures["verdicts_of_the_campaigns"].items())
    lines = [
        "# No change, and half the cores",
        "",
        f"`{figures['command']}`, {figures['cores']} cores, {figures['measured']}, {figures['minutes']} minutes. "
        f"Trials: {', '.join(f'{n} {status}' for status, n in figures['validity'].items())}.",
        "",
        f"**A/A.** {figures['pairs']} pairs of trials: {pairs}. Campaign against campaign, by metric: {campaigns}. "
        f"False alarms: {len(figures['alarms'])}.",
        "",
        "| metric | statistic | phase | median | CV |",
        "|---|---|---|---:|---:|",
        *(
            f"| {row['metric']} | {row['statistic']} | {row['phase']} | {format_quantity(row['median'], METRICS[row['metric']].unit)} | {row['cv']:.1%} |"
            for row in figures["scatter"]
        ),
        "",
        f"**B, half the cores.** The environment's changes: {'; '.join(figures['environment']) or 'none'}.",
        "",
        "| metric | statistic | phase | before | after | change (95 % interval) | verdict |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for row in figures["half_the_cores"]:
        unit = METRICS[row["metric"]].unit
        interval = "" if row["ci_low"] is None else f" ({row['ci_low']:+.1%} … {row['ci_high']:+.1%})"
        change = "–" if row["effect"] is None else f"{row['effect']:+.1%}{interval}"
        values = f"{format_quantity(row['baseline'], unit)} | {format_quantity(row['candidate'], unit)}"
        lines.append(
            f"| {row['metric']} | {row['statistic']} | {row['phase']} | {values} | {change} | {row['verdict'].replace('_', ' ')} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
