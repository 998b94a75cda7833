"""The load clients' figures as data and as tables, one a server, with the aims."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from load_clients import AiPerf, PerfAnalyzer, Run
from scipy import stats

OURS, ANALYZER, AIPERF = "plumbline", PerfAnalyzer.name, AiPerf.name


@dataclass(frozen=True)
class Round:
    """One client in one round: its latency runs by rate, and its highest passing rate."""

    latencies: dict[float, Run]
    best: Run | None


@dataclass
class Measured:
    """Figures of a whole run at one server, by client and round, with every single run. `failed`: clients that could not be measured, and why;
    `left`: what was skipped for lack of time; `server_us`: CPU of the server for a request, where it says what the server's limit is.
    """

    rounds: dict[str, dict[int, Round]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0
    server_us: float | None = None

    def add(self, client: str, number: int, latencies: dict[float, Run], best: Run | None) -> None:
        self.rounds.setdefault(client, {})[number] = Round(latencies, best)

    def values(self, client: str, of: Callable[[Round], float | None]) -> dict[int, float]:
        """A client's figure by round, where it has one."""
        by_round = {number: of(each) for number, each in self.rounds.get(client, {}).items()}
        return {number: value for number, value in by_round.items() if value is not None}

    def ratio(self, other: str, of: Callable[[Round], float | None]) -> Ratio | None:
        """Ours over the other's, over the rounds of both."""
        ours, theirs = self.values(OURS, of), self.values(other, of)
        logs = [math.log(ours[n] / theirs[n]) for n in sorted(ours.keys() & theirs.keys()) if theirs[n] and ours[n]]
        return Ratio(statistics.fmean(logs), statistics.stdev(logs) if len(logs) > 1 else None, len(logs)) if logs else None


@dataclass(frozen=True)
class Ratio:
    """A ratio by the logarithms of `rounds` paired ratios: their mean and standard deviation (None of one round)."""

    mean: float
    deviation: float | None
    rounds: int

    @property
    def value(self) -> float:
        """The geometric mean."""
        return math.exp(self.mean)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %, by a paired t; None of one round."""
        half = self._half(self.rounds)
        return None if half is None else (math.exp(self.mean - half), math.exp(self.mean + half))

    def rounds_for(self, bound: float, most: int = 1000) -> int | None:
        """How many rounds of this deviation would bring the bound outside the interval; None if `most` would not, or it is unknown."""
        apart = abs(self.mean - math.log(bound))
        return next((n for n in range(2, most) if (half := self._half(n)) is not None and half < apart), None)

    def _half(self, rounds: int) -> float | None:
        if self.deviation is None or rounds < 2:
            return None
        return float(stats.t.ppf(0.975, rounds - 1)) * self.deviation / math.sqrt(rounds)

    def __str__(self) -> str:
        between = self.interval
        return f"{self.value:.2f}" + (f" ({between[0]:.2f}–{between[1]:.2f})" if between else "")


def rate(each: Round) -> float | None:
    """The highest rate that held."""
    return each.best.rate if each.best else None


def _latency(at: float, which: str) -> Callable[[Round], float | None]:
    return lambda each: getattr(each.latencies[at], which) if at in each.latencies else None


@dataclass(frozen=True)
class Aim:
    """A bound on the ratio of our figure to a peer's at a server."""

    words: str
    server: str
    other: str
    of: Callable[[Round], float | None]
    bound: float
    at_least: bool

    def verdict(self, measured: Mapping[str, Measured]) -> str:
        """`met` or `missed` if the whole interval says so; else `undecided`. Of one round, which has none, by its value."""
        ratio = measured[self.server].ratio(self.other, self.of)
        if ratio is None:
            return "not measured"
        low, high = ratio.interval or (ratio.value, ratio.value)
        good, bad = (low >= self.bound, high < self.bound) if self.at_least else (high <= self.bound, low > self.bound)
        return "met" if good else "missed" if bad else "undecided"

    def row(self, measured: Mapping[str, Measured]) -> str:
        """A line of the table."""
        ratio, verdict = measured[self.server].ratio(self.other, self.of), self.verdict(measured)
        needed = ratio.rounds_for(self.bound) if ratio is not None and verdict == "undecided" else None
        more = f", {needed} rounds would decide" if needed else ", over a thousand rounds would decide" if verdict == "undecided" else ""
        return f"| {self.words} | {self.server} | {'–' if ratio is None else ratio} | {verdict}{more} |"


P99_AT_1000, CPU_AT_1000, CPU_AT_4000 = _latency(1000.0, "p99_ms"), _latency(1000.0, "cpu_us"), _latency(4000.0, "cpu_us")
AIMS = (
    Aim("highest rate, at least 2 × perf_analyzer's", "echo", ANALYZER, rate, 2.0, True),
    Aim("CPU for a request at 1,000/s, at most half of perf_analyzer's", "triton", ANALYZER, CPU_AT_1000, 0.5, False),
    Aim("CPU for a request at 4,000/s, at most half of perf_analyzer's", "triton", ANALYZER, CPU_AT_4000, 0.5, False),
    Aim("p99 at 1,000/s, at most 0.8 × perf_analyzer's", "triton", ANALYZER, P99_AT_1000, 0.8, False),
    Aim("highest rate, at least 10 × aiperf's", "triton", AIPERF, rate, 10.0, True),
)
ROWS: tuple[tuple[str, Callable[[Round], float | None], str], ...] = (
    ("highest rate (1/s)", rate, ",.0f"),
    ("CPU a request at 1,000/s (µs)", CPU_AT_1000, ".0f"),
    ("CPU a request at 4,000/s (µs)", CPU_AT_4000, ".0f"),
    ("p50 at 200/s (ms)", _latency(200.0, "p50_ms"), ".2f"),
    ("p99 at 200/s (ms)", _latency(200.0, "p99_ms"), ".2f"),
    ("p50 at 1,000/s (ms)", _latency(1000.0, "p50_ms"), ".2f"),
    ("p99 at 1,000/s (ms)", P99_AT_1000, ".2f"),
    ("p99 at 4,000/s (ms)", _latency(4000.0, "p99_ms"), ".2f"),
    ("p99 at the highest rate (ms)", lambda each: each.best.p99_ms if each.best else None, ".2f"),
    ("p99 dispatch delay there (ms)", lambda each: each.best.dispatch_p99_ms if each.best else None, ".2f"),
)


def write(measured: Mapping[str, Measured], path: Path | None, command: str) -> str:
    """The tables as Markdown; with a path also written, beside the figures as JSON."""
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
            "aims": {f"{aim.words} ({aim.server})": aim.verdict(measured) for aim in AIMS},
            "servers": {name: _figures(each) for name, each in measured.items()},
        }
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def _figures(measured: Measured) -> dict[str, object]:
    others = [client for client in measured.rounds if client != OURS]
    ratios = {(name, client): measured.ratio(client, of) for name, of, _ in ROWS for client in others}
    return {
        "seconds": round(measured.seconds, 1),
        "failed": measured.failed,
        "left": measured.left,
        "server_us": measured.server_us,
        "figures": {name: {client: measured.values(client, of) for client in measured.rounds} for name, of, _ in ROWS},
        "ratios": {f"{name}, to {client}": [each.value, each.interval, each.rounds] for (name, client), each in ratios.items() if each},
        "runs": [asdict(run) for run in measured.runs],
    }


def _markdown(measured: Mapping[str, Measured], machine: dict[str, object], command: str) -> str:
    lines = [
        "# The load client against its peers",
        "",
        f"`{command}` on {machine['cpu']}, {machine['cores']} cores, {machine['measured']}. Client and server have a core each.",
        "perf_analyzer is " + PerfAnalyzer.version + " (gRPC, asynchronous), aiperf " + AiPerf.version + " (HTTP, one round).",
        "Values are medians over the rounds, with the lowest and the highest; ratios are ours over theirs, the geometric mean of the rounds' own with a",
        "95 % interval (paired t on logarithms). An aim is met or missed if the whole interval is on one side of its bound.",
        "",
        "| aim | server | ratio | verdict |",
        "|---|---|---:|---|",
        *(aim.row(measured) for aim in AIMS),
    ]
    for name, each in measured.items():
        lines += ["", *_server_lines(name, each)]
    return "\n".join(lines) + "\n"


def _server_lines(name: str, measured: Measured) -> list[str]:
    clients = [client for client in (OURS, ANALYZER, AIPERF) if client in measured.rounds]
    rounds = max((len(each) for each in measured.rounds.values()), default=0)
    limit = (
        f"; {measured.server_us:.0f} µs of its core for a request, at most {1e6 / measured.server_us:,.0f}/s" if measured.server_us else ""
    )
    lines = [
        f"## Server: {name}",
        "",
        f"{rounds} paired rounds in {measured.seconds / 60:.0f} minutes{limit}.",
        "",
        "| | " + " | ".join([*clients, *(f"ratio to {client}" for client in clients[1:])]) + " |",
        "|---|" + "---:|" * max(1, 2 * len(clients) - 1),
    ]
    for row, of, form in ROWS:
        cells = [_cell(measured.values(client, of), form) for client in clients]
        ratios = [measured.ratio(client, of) for client in clients[1:]]
        lines.append(f"| {row} | " + " | ".join([*cells, *("–" if ratio is None else str(ratio) for ratio in ratios)]) + " |")
    lines += [f"\n{client} was not measured: {why}" for client, why in measured.failed.items()]
    return lines + ([f"\nTime was up before: {'; '.join(measured.left)}"] if measured.left else [])


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
