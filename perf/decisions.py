"""`make perf-decisions`: calibration of decision probabilities on simulated campaigns with a known answer.

The product's `decide` makes each decision in a randomly drawn world (`decision_worlds.py`): number of providers, repeats and slots, noise,
differences. A decision is right if its first provider is truly first among the eligible ones and truly passes the gate. For comparison a plain
bootstrap decides on the same trials, drawn with replacement.
Exits with 1 if decisions that state 75 to 85 %, over all worlds, are not right that often within 5 points.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

import numpy as np
from decision_worlds import USUAL_GAPS, WEIGHTS, World, any_world, campaign, factors, preference

from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics.proportions import wilson_interval

BINS = ((0.0, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.0))
PROMISED = (0.75, 0.85)
WITHIN = 0.05
OTHERS: dict[str, dict[str, Any]] = {
    "differ by 0.5 %, all nearly equal": {"gaps": 0.005},
    "differ by 3 %": {"gaps": 0.03},
    "differ by 30 %": {"gaps": 0.3},
    "as drawn, but 3 slots scatter six times as much as repeats": {"slots": 3, "slot_noise": "huge"},
}
"""Worlds outside the prior: a fixed standard deviation of all providers' logarithms, or slots far noisier than repeats."""


@dataclass(frozen=True)
class Made:
    """One decision: the stated probability of its first provider, a plain bootstrap's, and whether it was right."""

    world: World
    stated: float
    plain: float
    right: bool


@dataclass(frozen=True)
class Bin:
    """Decisions within a range: count, mean stated probability, share that was right with its 95 % interval."""

    low: float
    high: float
    n: int
    stated: float | None
    right: float | None
    right_low: float | None
    right_high: float | None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--decisions", type=int, default=16_000, help="simulated decisions of the stated prior; a quarter for each other world"
    )
    parser.add_argument("--seed", type=int, default=20261101)
    parser.add_argument("--out", type=Path, help="write the tables as JSON here, and the same as Markdown beside it")
    options = parser.parse_args()
    began = time.monotonic()
    with ProcessPoolExecutor(max_workers=2) as pool:
        pending = pool.submit(decisions, options.decisions, options.seed)
        others_pending = {
            name: pool.submit(decisions, options.decisions // 4, options.seed + i, **fixed)
            for i, (name, fixed) in enumerate(OTHERS.items(), start=1)
        }
        made, others = pending.result(), {name: of.result() for name, of in others_pending.items()}
    report = tables(made, others, options.seed)
    print(markdown(report))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    print(f"{sum(map(len, (made, *others.values()))):,} decisions in {time.monotonic() - began:.0f} s", file=sys.stderr)
    wrong = missed(made)
    if wrong:
        print(f"missed: {wrong}")
    return 1 if wrong else 0


def decisions(n: int, seed: int, **fixed: Any) -> list[Made]:
    """Decide `n` simulated campaigns. `fixed`: factors common to all worlds. Excludes campaigns with fewer than two eligible providers, which state nothing."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        world = replace(any_world(rng), **fixed)
        truth, trials = campaign(world, rng)
        decision = decide("simulated", "inference", preference(world), trials)
        first = decision.winner
        if first is None or first.probability_first is None:
            continue
        eligible = [r.provider for r in decision.ranking if r.eligible]
        plain = plain_bootstrap(decision, trials, rng)
        rows.append(Made(world, first.probability_first, plain, truth.first(eligible) == first.provider))
    return rows


def plain_bootstrap(decision: Decision, trials: Sequence[TrialSample], rng: np.random.Generator, draws: int = 500) -> float:
    """Share of draws in which the first provider is first, when each provider's trials are drawn with replacement and their logarithms averaged."""
    signs = {c.metric: c.weight * (1.0 if c.metric == "output_token_throughput" else -1.0) for c in decision.columns}
    means = []
    for ranked in (r for r in decision.ranking if r.eligible):
        own = [t for t in trials if t.provider == ranked.provider]
        scores = np.array([sum(signs[m.metric] * np.log(m.value or np.nan) for m in t.metrics) for t in own])
        means.append(scores[rng.integers(len(own), size=(draws, len(own)))].mean(axis=1))
    return float((np.argmax(means, axis=0) == 0).mean())


def binned(stated: Sequence[float], right: Sequence[bool], bins: Iterable[tuple[float, float]] = BINS) -> list[Bin]:
    """Decisions by stated probability; the last bin includes its upper end."""
    p, y = np.array(stated, dtype=float), np.array(right, dtype=bool)
    found = []
    for low, high in bins:
        inside = (p >= low) & ((p < high) | (high == 1.0))
        n, hits = int(inside.sum()), int(y[inside].sum())
        share = wilson_interval(hits, n)
        found.append(
            Bin(
                low,
                high,
                n,
                float(p[inside].mean()) if n else None,
                hits / n if n else None,
                share.low if n else None,
                share.high if n else None,
            )
        )
    return found


def missed(made: Sequence[Made]) -> str | None:
    """Message about a missed promise; None if it is kept."""
    bin_ = binned([m.stated for m in made], [m.right for m in made], (PROMISED,))[0]
    if bin_.stated is None or bin_.right is None:
        return "no decision stated 75 to 85 %"
    if abs(bin_.right - bin_.stated) <= WITHIN:
        return None
    return f"decisions that stated {bin_.stated:.1%} on average were right {bin_.right:.1%} of the time (n = {bin_.n}); expected within 5 points"


def tables(made: Sequence[Made], others: dict[str, list[Made]], seed: int) -> dict[str, Any]:
    """All printed figures, as plain values."""
    by_factor: dict[str, dict[str, dict[str, Any]]] = {}
    for name in factors(made[0].world):
        values = sorted({factors(m.world)[name] for m in made})
        by_factor[name] = {value: _promised([m for m in made if factors(m.world)[name] == value]) for value in values}
    slots = {f"{s} slot{'s' if s > 1 else ''}, slot noise {kind}": (s, kind) for s in (1, 3) for kind in ("none", "moderate", "large")}
    by_factor["slots and their noise"] = {
        text: _promised([m for m in made if (m.world.slots, m.world.slot_noise) == key]) for text, key in slots.items()
    }
    return {
        "command": "python perf/decisions.py --out docs/measurements/decisions.json",
        "decisions": len(made),
        "seed": seed,
        "weights": WEIGHTS,
        "prior": USUAL_GAPS,
        "bins": [asdict(b) for b in binned([m.stated for m in made], [m.right for m in made])],
        "promised": _promised(made),
        "by world": by_factor,
        "plain bootstrap": [asdict(b) for b in binned([m.plain for m in made], [m.right for m in made])],
        "plain bootstrap promised": asdict(binned([m.plain for m in made], [m.right for m in made], (PROMISED,))[0]),
        "other worlds": {
            name: {
                **_promised(of),
                "surer than 75 %": float(np.mean([m.stated >= 0.75 for m in of])),
                "first right": float(np.mean([m.right for m in of])),
            }
            for name, of in others.items()
        },
    }


def _promised(made: Sequence[Made]) -> dict[str, Any]:
    return asdict(binned([m.stated for m in made], [m.right for m in made], (PROMISED,))[0])


def markdown(report: dict[str, Any]) -> str:
    lines = [
        "# Calibration of decision probabilities",
        "",
        f"`{report['command']}`, seed {report['seed']}, {report['decisions']:,} simulated decisions between two or more eligible providers.",
        "",
        "Providers differ by a standard deviation drawn for each decision: log-normal, median "
        f"{USUAL_GAPS['median']:.0%}, factor {USUAL_GAPS['factor']:g}. Worlds: `perf/decision_worlds.py`.",
        "",
        *_table(report["bins"]),
        "",
        "The same trials, plain bootstrap (trials drawn with replacement):",
        "",
        *_table(report["plain bootstrap"]),
        "",
        "## Decisions that stated 75 to 85 %",
        "",
        "| world | n | stated | right | 95 % interval |",
        "|---|---:|---:|---:|---:|",
        _row("all", report["promised"]),
        _row("all, by a plain bootstrap", report["plain bootstrap promised"]),
    ]
    for name, values in report["by world"].items():
        lines += [_row(text if name == "slots and their noise" else f"{name}: {text}", of) for text, of in values.items()]
    lines += [
        "",
        "## Worlds outside the prior",
        "",
        "Of all decisions in such a world: those that stated 75 % or more, and how often the first was right.",
        "",
        "| providers | stated 75 to 85 % | stated | right | 95 % interval | all that state 75 % or more | first is right |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, of in report["other worlds"].items():
        lines.append(f"{_row(name, of)} {of['surer than 75 %']:.0%} | {of['first right']:.0%} |")
    return "\n".join(lines) + "\n"


def _table(bins: list[dict[str, Any]]) -> list[str]:
    rows = [_row(f"{b['low']:.0%} to {b['high']:.0%}", b) for b in bins]
    return ["| stated | n | on average | right | 95 % interval |", "|---|---:|---:|---:|---:|", *rows]


def _row(name: str, of: dict[str, Any]) -> str:
    if not of["n"]:
        return f"| {name} | 0 | | | |"
    return f"| {name} | {of['n']:,} | {of['stated']:.1%} | {of['right']:.1%} | {of['right_low']:.1%} … {of['right_high']:.1%} |"


if __name__ == "__main__":
    raise SystemExit(main())
