"""The load clients' figures as data and as a table, with the aims."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from load_clients import AiPerf, PerfAnalyzer, Run

OURS, ANALYZER, AIPERF = "plumbline", PerfAnalyzer.name, AiPerf.name


@dataclass(frozen=True)
class Round:
    """One client in one round: its latency runs by rate, and its highest passing rate."""

    latencies: dict[float, Run]
    best: Run | None


@dataclass
class Measured:
    """Figures of a whole run, by client and round, with every single run. `failed`: clients that could not be measured, and why; `left`: what
    was skipped for lack of time.
    """

    rounds: dict[str, dict[int, Round]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, client: str, number: int, latencies: dict[float, Run], best: Run | None) -> None:
        self.rounds.setdefault(client, {})[number] = Round(latencies, best)

    def values(self, client: str, of: Callable[[Round], float | None]) -> dict[int, float]:
        """A client's figure by round, where it has one."""
        by_round = {number: of(each) for number, each in self.rounds.get(client, {}).items()}
        return {number: value for number, value in by_round.items() if value is not None}

    def ratio(self, other: str, of: Callable[[Round], float | None]) -> float | None:
        """Ours over the other's: the median over the rounds of both."""
        ours, theirs = self.values(OURS, of), self.values(other, of)
        ratios = [ours[n] / theirs[n] for n in ours.keys() & theirs.keys() if theirs[n]]
        return statistics.median(ratios) if ratios else None


def rate(each: Round) -> float | None:
    """The highest rate that held."""
    return each.best.rate if each.best else None


def cpu_at_best(each: Round) -> float | None:
    """CPU µs a request at the highest rate."""
    return each.best.cpu_us if each.best else None


def cpu_at_1000(each: Round) -> float | None:
    """CPU µs a request at 1,000/s."""
    return each.latencies[1000.0].cpu_us


def _latency(at: float, which: str) -> Callable[[Round], float | None]:
    return lambda each: getattr(each.latencies[at], which)


@dataclass(frozen=True)
class Aim:
    """A bound on the ratio of our figure to a peer's."""

    words: str
    other: str
    of: Callable[[Round], float | None]
    bound: float
    at_least: bool

    def met(self, measured: Measured) -> bool:
        """Whether it was measured and met."""
        ratio = measured.ratio(self.other, self.of)
        return ratio is not None and (ratio >= self.bound if self.at_least else ratio <= self.bound)


P99_AT_1000 = _latency(1000.0, "p99_ms")
AIMS = (
    Aim("highest rate, at least 1.5 × perf_analyzer's", ANALYZER, rate, 1.5, True),
    Aim("CPU for a request at each one's highest rate, at most 1/4 of perf_analyzer's", ANALYZER, cpu_at_best, 0.25, False),
    Aim("p99 at 1,000/s, at most 0.6 × perf_analyzer's", ANALYZER, P99_AT_1000, 0.6, False),
    Aim("highest rate, at least 10 × aiperf's", AIPERF, rate, 10.0, True),
)
ROWS: tuple[tuple[str, Callable[[Round], float | None], str], ...] = (
    ("highest rate (1/s)", rate, ",.0f"),
    ("CPU a request there (µs)", cpu_at_best, ".0f"),
    ("CPU a request at 1,000/s (µs)", cpu_at_1000, ".0f"),
    ("p50 at 200/s (ms)", _latency(200.0, "p50_ms"), ".2f"),
    ("p99 at 200/s (ms)", _latency(200.0, "p99_ms"), ".2f"),
    ("p50 at 1,000/s (ms)", _latency(1000.0, "p50_ms"), ".2f"),
    ("p99 at 1,000/s (ms)", P99_AT_1000, ".2f"),
    ("p99 at the highest rate (ms)", lambda each: each.best.p99_ms if each.best else None, ".2f"),
    ("p99 dispatch delay there (ms)", lambda each: each.best.dispatch_p99_ms if each.best else None, ".2f"),
)


def write(measured: Measured, path: Path | None, command: str) -> str:
    """The table as Markdown; with a path also written, beside the figures as JSON."""
    machine = {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "uvloop": version("uvloop"),
        "measured": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "load_average_after": [round(value, 2) for value in os.getloadavg()],
    }
    text = _markdown(measured, machine, command)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = {
            "command": command,
            "machine": machine,
            "seconds": round(measured.seconds, 1),
            "aims": {aim.words: {"ratio": measured.ratio(aim.other, aim.of), "bound": aim.bound, "met": aim.met(measured)} for aim in AIMS},
            "failed": measured.failed,
            "left": measured.left,
            "figures": {name: {client: measured.values(client, of) for client in measured.rounds} for name, of, _ in ROWS},
            "runs": [asdict(run) for run in measured.runs],
        }
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def _markdown(measured: Measured, machine: dict[str, object], command: str) -> str:
    clients = [name for name in (OURS, ANALYZER, AIPERF) if name in measured.rounds]
    rounds = max((len(each) for each in measured.rounds.values()), default=0)
    lines = [
        "# The load client against its peers",
        "",
        f"`{command}` on {machine['cpu']}, {machine['cores']} cores, {machine['measured']}: {rounds} paired rounds in "
        f"{measured.seconds / 60:.0f} minutes against one Triton whose model returns its input. Client and server share the cores.",
        "perf_analyzer is " + PerfAnalyzer.version + " (gRPC, asynchronous), aiperf " + AiPerf.version + " (HTTP, one round).",
        "Values are medians over the rounds, with the lowest and the highest; ratios are ours over theirs, the median of the rounds' own.",
        "",
        "| | " + " | ".join([*clients, *(f"ratio to {name}" for name in clients[1:])]) + " |",
        "|---|" + "---:|" * (2 * len(clients) - 1),
    ]
    for name, of, form in ROWS:
        cells = [_cell(measured.values(client, of), form) for client in clients]
        ratios = [measured.ratio(client, of) for client in clients[1:]]
        lines.append(f"| {name} | " + " | ".join([*cells, *("–" if r is None else f"{r:.2f}" for r in ratios)]) + " |")
    lines += ["", "| aim | measured | met |", "|---|---:|---|"]
    for aim in AIMS:
        ratio = measured.ratio(aim.other, aim.of)
        lines.append(f"| {aim.words} | {'not measured' if ratio is None else f'{ratio:.2f} ×'} | {'yes' if aim.met(measured) else 'no'} |")
    lines += [f"\n{name} was not measured: {why}" for name, why in measured.failed.items()]
    lines += [f"\nTime was up before: {'; '.join(measured.left)}"] if measured.left else []
    return "\n".join(lines) + "\n"


def _cell(values: dict[int, float], form: str) -> str:
    if not values:
        return "–"
    middle = format(statistics.median(values.values()), form)
    return middle if len(values) == 1 else f"{middle} ({format(min(values.values()), form)}–{format(max(values.values()), form)})"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
