"""The load clients under comparison: installation, a run at one rate, and the reading of its report."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from load_drive import MODEL, VALUES
from load_server import CLIENT_CORE, Server
from load_watch import Watched, watch

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".perf"
LINKED = {"libb64.so.0d": "libb64-*.so.0d", "libcudart.so.12": "libcudart-*.so.12*"}
"""Libraries that perf_analyzer needs, with the names in Triton's wheel."""
ACHIEVED, DISPATCH_MS, SIGMAS = 0.995, 10.0, 3
HOPELESS = 0.9


@dataclass(frozen=True)
class Run:
    """One run of a client at one rate. Latencies in ms as the client reports them; `cpu_us`: CPU for a request, measured from outside.

    `achieved`: the rate at which requests were sent and answered over the requested rate. `held`: the client sustained the rate.
    """

    client: str
    rate: float
    requests: int
    achieved: float
    p50_ms: float | None
    p99_ms: float | None
    cpu_us: float | None
    held: bool
    dispatch_p99_ms: float | None = None
    note: str = ""

    @property
    def hopeless(self) -> bool:
        """Whether it was too far behind for another try."""
        return self.achieved < HOPELESS


class ClientFailed(RuntimeError):
    """A client that cannot be installed, or ends without figures; the message has the reason."""


class Client(Protocol):
    """A load client. `run` may raise ClientFailed.

    `patient`: a client that cannot sustain the rate may take three times as long, so that its latencies are known. A search does not wait: the
    rate does not pass.
    """

    name: str

    def install(self) -> None: ...

    def run(self, server: Server, rate: float, seconds: float, seed: int, folder: Path, *, patient: bool = True) -> Run: ...


class Ours:
    """Plumbline's client. Passes with no error, each output's size right, p99 dispatch delay and the achieved rate within their limits."""

    name = "plumbline"

    def install(self) -> None:
        """Nothing to install."""

    def run(self, server: Server, rate: float, seconds: float, seed: int, folder: Path, *, patient: bool = True) -> Run:
        command = [sys.executable, str(ROOT / "perf" / "load_drive.py"), server.grpc, str(rate), str(seconds), str(seed)]
        observed = _watched(self.name, command, server, folder, _within(seconds, 4.0, patient))
        report = json.loads(observed.output.strip().splitlines()[-1])
        agree = report["finished"] == observed.requests
        achieved, dispatch = min(report["sent"], report["answered"]), report["dispatch_p99_ms"]
        sustained = agree and not report["errors"] and dispatch < DISPATCH_MS and achieved >= ACHIEVED
        note = report["first_error"] or ("" if agree else f"{report['finished']} finished, the server counted {observed.requests}")
        return Run(
            self.name, rate, report["requests"], achieved, report["p50_ms"], report["p99_ms"], observed.cpu_us, sustained, dispatch, note
        )


class PerfAnalyzer:
    """NVIDIA's perf_analyzer from a wheel of tritonclient, over gRPC, asynchronous; three windows, any result accepted.

    Passes if the reported rate is the requested one, minus three standard deviations of the Poisson count.
    """

    name = "perf_analyzer"
    version = "2.51.0"

    def __init__(self) -> None:
        self._folder = ENVIRONMENTS / f"perf_analyzer-{self.version}"

    def install(self) -> None:
        _install(self._folder, "--no-deps", f"tritonclient=={self.version}")
        libraries = self._folder / "plumbline-libraries"
        libraries.mkdir(exist_ok=True)
        for name, pattern in LINKED.items():
            found = sorted((ROOT / ".triton" / "nvidia_pytriton.libs").glob(pattern))
            if not found:
                raise ClientFailed(f"perf_analyzer needs {name}; no {pattern} in .triton/nvidia_pytriton.libs: make setup")
            (libraries / name).unlink(missing_ok=True)
            (libraries / name).symlink_to(found[0])

    @property
    def binary(self) -> Path:
        return self._folder / "bin" / "perf_analyzer"

    @property
    def variables(self) -> dict[str, str]:
        """Of its environment."""
        return {"LD_LIBRARY_PATH": str(self._folder / "plumbline-libraries")}

    def run(self, server: Server, rate: float, seconds: float, seed: int, folder: Path, *, patient: bool = True) -> Run:
        report = folder / "perf_analyzer.csv"
        report.unlink(missing_ok=True)
        command = [
            *(str(self.binary), "-m", MODEL, "-x", "1", "-u", server.grpc, "-i", "grpc", "--async"),
            *("--request-rate-range", f"{rate:g}", "--request-distribution", "poisson"),
            *("--measurement-interval", str(math.ceil(seconds / 3 * 1e3)), "--max-trials", "3", "--stability-percentage", "999"),
            *("-f", str(report)),
        ]
        observed = _watched(self.name, command, server, folder, _within(seconds, 4.0, patient), self.variables)
        if not report.exists():
            raise ClientFailed(f"perf_analyzer at {rate:g}/s wrote no report; its output: {' | '.join(observed.output.splitlines()[-4:])}")
        with report.open(newline="") as file:
            row = next(csv.DictReader(file))
        counts = re.findall(r"Request count: (\d+)", observed.output)
        requests = int(counts[-1]) if counts else observed.requests
        achieved = float(row["Inferences/Second"]) / rate
        delayed = re.findall(r"([\d.]+)% of the requests were delayed", observed.output)
        note = f"{delayed[-1]} % of the requests were delayed" if delayed else ""
        sustained = achieved >= ACHIEVED - SIGMAS / math.sqrt(max(requests, 1))
        p50, p99 = (float(row[f"{p} latency"]) / 1e3 for p in ("p50", "p99"))
        return Run(self.name, rate, requests, achieved, p50, p99, observed.cpu_us, sustained, note=note)


class AiPerf:
    """aiperf against Triton's HTTP endpoint by its template endpoint (it has no KServe protocol); its latencies count from sending.

    Passes like perf_analyzer.
    """

    name = "aiperf"
    version = "0.13.0"
    _tokenizer = (
        "import sys; from tokenizers import Tokenizer, models, pre_tokenizers; from transformers import PreTrainedTokenizerFast as Fast\n"
        "words = {w: i for i, w in enumerate(['<unk>', '<s>', '</s>', '<pad>', *(f'w{i}' for i in range(4000))])}\n"
        "made = Tokenizer(models.WordLevel(words, unk_token='<unk>')); made.pre_tokenizer = pre_tokenizers.Whitespace()\n"
        "Fast(tokenizer_object=made, unk_token='<unk>', bos_token='<s>', eos_token='</s>', pad_token='<pad>').save_pretrained(sys.argv[1])\n"
    )

    def __init__(self) -> None:
        self._folder = ENVIRONMENTS / f"aiperf-{self.version}"

    def install(self) -> None:
        _install(self._folder, f"aiperf=={self.version}")
        if not (self._folder / "tokenizer").exists():
            # It requires a tokenizer even without tokenisation, and would download one.
            _run_command([str(self._folder / "bin" / "python"), "-c", self._tokenizer, str(self._folder / "tokenizer")], 120)
        values = ",".join(str(i) for i in range(VALUES))
        (self._folder / "request.json").write_text(
            f'{{"inputs":[{{"name":"IN","shape":[1,{VALUES}],"datatype":"FP32","data":[{values}]}}]}}', encoding="utf-8"
        )

    def run(self, server: Server, rate: float, seconds: float, seed: int, folder: Path, *, patient: bool = True) -> Run:
        report = folder / "aiperf" / "profile_export_aiperf.json"
        report.unlink(missing_ok=True)
        count = max(20, round(rate * seconds))
        command = [
            *(str(self._folder / "bin" / "aiperf"), "profile", "-m", MODEL, "-u", f"http://{server.http}", "--endpoint-type", "template"),
            *("--custom-endpoint", f"/v2/models/{MODEL}/infer", "--extra-inputs", f"payload_template:{self._folder / 'request.json'}"),
            *("--extra-inputs", "response_field:outputs[0].data", "--tokenizer", str(self._folder / "tokenizer"), "--ui", "none"),
            *("--num-dataset-entries", "10", "--isl", "8", "--random-seed", str(seed), "--output-artifact-dir", str(report.parent)),
            *("--request-rate", f"{rate:g}", "--arrival-pattern", "poisson", "--request-count", str(count)),
        ]
        observed = _watched(self.name, command, server, folder, _within(seconds, 20.0, patient), {"NO_COLOR": "1"})
        if not report.exists():
            raise ClientFailed(f"aiperf at {rate:g}/s wrote no report; its output: {' | '.join(observed.output.splitlines()[-4:])}")
        figures = json.loads(report.read_text(encoding="utf-8"))
        achieved = float(figures["request_throughput"]["avg"]) / rate
        sustained = achieved >= ACHIEVED - SIGMAS / math.sqrt(count) and not figures.get("error_summary")
        latency = figures["request_latency"]
        return Run(self.name, rate, count, achieved, float(latency["p50"]), float(latency["p99"]), observed.cpu_us, sustained)


def _within(seconds: float, starting: float, patient: bool) -> float:
    """Timeout of a client with `seconds` of load that takes up to `starting` to begin and to end."""
    return (3.0 if patient else 1.5) * seconds + starting


def _watched(name: str, command: list[str], server: Server, folder: Path, within_s: float, env: dict[str, str] | None = None) -> Watched:
    server.settle()
    observed = watch(["taskset", "-c", CLIENT_CORE, *command], lambda: server.served()[0], env=env, cwd=folder, within_s=within_s)
    if observed.status == -signal.SIGKILL:
        raise ClientFailed(f"{name} timed out after {observed.took_s:.0f} s")
    if observed.status:
        raise ClientFailed(f"{name} ended with {observed.status}; its output: {' | '.join(observed.output.strip().splitlines()[-4:])}")
    return observed


def _install(folder: Path, *what: str) -> None:
    uv = str(ROOT / ".venv" / "bin" / "uv")
    if (folder / ".ready").exists():
        return
    _run_command([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], 60)
    _run_command([uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *what], 300)
    (folder / ".ready").touch()


def _run_command(command: list[str], within_s: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"{' '.join(command[:4])} took over {within_s:g} s") from None
    if done.returncode:
        raise ClientFailed(f"{' '.join(command[:4])} ended with {done.returncode}: {' | '.join(done.stderr.strip().splitlines()[-3:])}")
