"""Files and answers that others may hand to Plumbline and that are damaged, absurd or bombs: one list for the test and for the table.

`python -m tests.data.hostile` runs each through the product's own command, in this process, and prints what was said of it, and how much memory
the process took. Bombs are made here, and never committed."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MOST_MIB = 300


@dataclass(frozen=True)
class Hostile:
    """`content`: of the file, made when it is needed. `says`: a regular expression of the one sentence."""

    kind: str
    name: str
    content: Callable[[], bytes]
    says: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """`status`: of the command. `traceback`: an error that no one expected, as one line; empty if there is none."""

    status: int
    said: str
    traceback: str = ""


def _lines(kind: str, name: str, text: str | Callable[[], str], says: str, *words: str) -> Hostile:
    return Hostile(kind, name, lambda: (text if isinstance(text, str) else text()).encode(), says, words)


INVOICE = (
    "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,PricingQuantity,PricingUnit,RegionId,ResourceId,SkuId"
)
_BILLED = {
    "BilledCost": "90.00",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargePeriodEnd": "2026-11-01T01:00:00Z",
    "ChargePeriodStart": "2026-11-01T00:00:00Z",
    "PricingQuantity": "1",
    "PricingUnit": "Hours",
    "RegionId": "here",
    "ResourceId": "i-1",
    "SkuId": "BoxUsage:host-2core",
}


def _invoice(name: str, says: str, **cells: str) -> Hostile:
    return _lines("invoice", name, f"{INVOICE}\n{','.join((_BILLED | cells).values())}\n", says)


PRICES = "date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n"


def _price(name: str, says: str, day: str = "2026-11-01", gpus: str = "2", price: str = "0.02") -> Hostile:
    return _lines("prices", name, f"{PRICES}{day},local,here,host-2core,none,{gpus},on-demand,{price}\n", says)


def _log(name: str, says: str, **fields: Any) -> Hostile:
    line = {"startTime": "2026-11-01T00:00:00Z", "prompt_tokens": 3, "completion_tokens": 4} | fields
    return _lines("access log", name, re.sub(r'"RAW(.*?)"', r"\1", json.dumps(line)) + "\n", says)


def _report(name: str, says: str, *lines: str) -> Hostile:
    return _lines("script report", name, "\n".join(lines) + "\n", says)


def _steps(**fields: Any) -> list[str]:
    return [re.sub(r'"RAW(.*?)"', r"\1", json.dumps({"step": n, "loss": 2.5, **fields})) for n in range(3)]


def _printed_steps(tokens: str, seconds: str) -> list[str]:
    return [f"step {n} loss 2.5 tokens {tokens} seconds {seconds}" for n in range(3)]


def _tensorboard(name: str, says: str, make: Callable[[], bytes]) -> Hostile:
    return Hostile("TensorBoard", name, make, says)


def _event(step: int = 1, wall_time: float = 1.79e9, **tensor: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    sizes = tensor.pop("sizes", ())
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    proto = TensorProto(**{"dtype": 1, "float_val": [2.5], **tensor}, tensor_shape=shape)
    value = Summary.Value(tag="loss", tensor=proto)
    content: bytes = Event(step=step, wall_time=wall_time, summary=Summary(value=[value])).SerializeToString()
    return content


def _record(content: bytes, length: int | None = None) -> bytes:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    size = struct.pack("<Q", len(content) if length is None else length)
    return size + struct.pack("<I", masked_crc32c(size)) + content + struct.pack("<I", masked_crc32c(content))


def _vllm(name: str, says: str, **fields: Any) -> Hostile:
    def content() -> bytes:
        whole = json.loads((ROOT / "tests/data/imported_results/vllm-bench-0.32.0.json").read_text())
        return re.sub(r'"RAW(.*?)"', r"\1", json.dumps(whole | fields)).encode()

    return Hostile("benchmark file", name, content, says)


def _mlperf(name: str, says: str, old: str, new: str) -> Hostile:
    def content() -> bytes:
        lines = (ROOT / "tests/data/mlperf/training_excerpt.csv").read_text().splitlines()[:2]
        assert old in lines[1]
        return "\n".join([lines[0], lines[1].replace(old, new, 1), ""]).encode()

    return Hostile("published table", name, content, says)


def _printed(name: str, says: str, text: str, how: str = "jsonl") -> Hostile:
    return _lines("container output", name, text, says, how)


BIG = "9" * 5000
_PRINTED = r"step (?P<step>\S+) loss (?P<loss>\S+) tokens (?P<tokens>\S+) seconds (?P<seconds>\S+)"
CASES: tuple[Hostile, ...] = (
    _invoice("cost NaN", r"invoice.csv:2, BilledCost is \"NaN\"; expected a number", BilledCost="NaN"),
    _invoice("cost infinite", r":2, BilledCost is \"-Infinity\"; expected a number", BilledCost="-Infinity"),
    _invoice("cost 1E+999999", r":2, BilledCost is \"1E\+999999\"; expected .* at most 1e\+15", BilledCost="1E+999999"),
    _invoice("cost of 5,000 digits", r":2, BilledCost is .* of 5,000 characters; expected .* at most 1e\+15", BilledCost=BIG),
    _invoice("hours 1e300", r":2, PricingQuantity is \"1e300\"; expected a number of its unit, at most", PricingQuantity="1e300"),
    _invoice("hours in words", r":2, PricingQuantity is \"many\"; expected a number", PricingQuantity="many"),
    _invoice(
        "year 1, east of UTC",
        r":2, ChargePeriodStart is \"0001-01-01T00:00:00\+14:00\"; expected .* from 2000 until 2100",
        ChargePeriodStart="0001-01-01T00:00:00+14:00",
    ),
    _invoice(
        "year 9999",
        r":2, ChargePeriodEnd is \"9999-12-31T23:59:59Z\"; expected .*from 2000 until 2100",
        ChargePeriodEnd="9999-12-31T23:59:59Z",
    ),
    _invoice("ends before it starts", r":2, ChargePeriodEnd is .*; expected a time after", ChargePeriodEnd="2026-10-01T00:00:00Z"),
    _lines(
        "invoice",
        "a unit of 1,2.3.4 hours",
        f"{INVOICE}\n{','.join((_BILLED | {'PricingUnit': '1.2.3 Hours'}).values())}\n",
        r"not shown|in 1\.2\.3 Hours",
    ),
    _lines("invoice", "400 MiB without a line end", "SPARSE", r"invoice.csv:1 has more than 1,048,576 characters; expected a table"),
    Hostile("invoice", "not text", lambda: b"\xff\xfe\x00" * 100, r"invoice.csv is not a CSV file in UTF-8"),
    _price("price NaN", r":2, usd_per_gpu_hour is \"nan\"; expected a number above 0", price="nan"),
    _price("price 1e300", r":2, usd_per_gpu_hour is \"1e300\"; expected .* at most 10,000", price="1e300"),
    _price("price negative", r":2, usd_per_gpu_hour is \"-1\"; expected a number above 0", price="-1"),
    _price("price inf", r":2, usd_per_gpu_hour is \"inf\"; expected a number above 0", price="inf"),
    _price("5,000 digits of GPUs", r":2, gpus is .* of 5,000 characters; expected a whole number", gpus=BIG),
    _price("year 1, east of UTC", r":2, date is .*; expected .* from 2000 until 2100", day="0001-01-01T00:00:00+14:00"),
    _price("year 9999", r":2, date is .*; expected a time from 2000 until 2100", day="9999-12-31"),
    _lines("prices", "400 MiB without a line end", "SPARSE", r"prices.csv:1 has more than 1,048,576 characters; expected a table"),
    _log("time infinite", r"access.jsonl:1, startTime is Infinity; expected epoch seconds", startTime="RAWInfinity"),
    _log("time NaN", r":1, startTime is NaN; expected epoch seconds", startTime="RAWNaN"),
    _log("time 1e300", r":1, startTime is 1e\+300; expected epoch seconds", startTime=1e300),
    _log("year 1", r":1, startTime is .*; expected epoch seconds, .* from 2000 until 2100", startTime="0001-01-01T00:00:00+14:00"),
    _log("year 9999", r":1, endTime is .*; expected epoch seconds, .* from 2000 until 2100", endTime="9999-12-31T23:59:59-14:00"),
    _log("tokens infinite", r":1, prompt_tokens is Infinity; expected a whole number", prompt_tokens="RAWInfinity"),
    _log("tokens NaN", r":1, completion_tokens is NaN; expected a whole number", completion_tokens="RAWNaN"),
    _log("tokens 1e300", r":1, prompt_tokens is 1e\+300; expected a whole number", prompt_tokens=1e300),
    _log("5,000 digits of tokens", r"access.jsonl:1 is not JSON|expected a whole number", prompt_tokens=f"RAW{BIG}"),
    _lines("access log", "nested 200,000 deep", "[" * 200_000, r"access.jsonl:1 is not JSON"),
    _report("step 10^18", r"the script reported step .*; expected a number of at most 1e\+09", *_steps(), '{"step": 1e18, "loss": 1}'),
    _report("tokens 1e300", r"the script reported tokens 1e\+300; expected a number of at most 1e\+15", *_printed_steps("1e300", "0.1")),
    _report("seconds 1e30", r"the script reported seconds 1e\+30; expected", *_printed_steps("8", "1e30")),
    _report("a pattern that takes years", r"the regular expression .* takes more than 1 s for a text of", "a" * 4000),
    _report("step infinite", r"reported no step", *_steps(step="RAWInfinity", loss=None)),
    _report("5,000 digits of a step", r"reported no step", *_steps(step=f"RAW{BIG}", loss=None)),
    _report("a bar of 5,000 digits", r"reported no step", f"{BIG}/{BIG} [00:01<00:01]"),
    _report("nested 200,000 deep", r"reported no step", '{"a":' * 60_000),
    _tensorboard("wall time NaN", r"wall_time nan; expected seconds since 1970", lambda: _record(_event(wall_time=float("nan")))),
    _tensorboard("wall time infinite", r"wall_time inf; expected seconds since 1970", lambda: _record(_event(wall_time=float("inf")))),
    _tensorboard("wall time of the year 9999", r"wall_time 2\.5e\+11; expected", lambda: _record(_event(wall_time=2.5e11))),
    _tensorboard("step below 0", r"an event of step -5; expected one from 0", lambda: _record(_event(step=-5))),
    _tensorboard(
        "a tensor of 10^12", r"has a tensor of \[1000000, 1000000\]; expected a scalar", lambda: _record(_event(sizes=(10**6, 10**6)))
    ),
    _tensorboard("an empty tensor", r"has a tensor of \[0\]; expected a scalar", lambda: _record(_event(sizes=(0,), float_val=[]))),
    _tensorboard("a text", r"has no number .*; expected a scalar", lambda: _record(_event(dtype=7, float_val=[], string_val=[b"x"]))),
    _tensorboard("a record of 1 TiB", r"an event of 1,099,511,627,776 bytes at byte 0; expected", lambda: _record(b"x", 1 << 40)),
    _tensorboard("a record that is no event", r"is no event file of TensorBoard", lambda: _record(b"\xff" * 50)),
    _vllm("a duration of 1e300", r"duration is 1e\+300; expected a number of at least", duration=1e300),
    _vllm("requests below 0", r"completed is -3; expected", completed=-3),
    _vllm("requests as text", r"completed is '12'; expected", completed="12"),
    _vllm("5,000 digits of requests", r"completed is |not whole JSON", completed=f"RAW{BIG}"),
    _vllm("date of the year 9999", r"date is .99991231-235959.*; expected a time", date="99991231-235959"),
    _lines("benchmark file", "nested 200,000 deep", "[" * 200_000, r"not whole JSON"),
    _mlperf("minutes infinite", r"minutes_to_train: \"inf\" is not a positive number", "4.5532", "inf"),
    _mlperf("minutes 1e300", r"minutes_to_train: \"1e300\" is not a positive number of at most 1e\+15", "4.5532", "1e300"),
    _printed("1e300", r"rate is 1e\+300; expected a number from -1e\+24 to 1e\+24", '{"rate": 1e300}'),
    _printed("NaN alone", r"no line of JSON has any of rate", '{"rate": NaN}'),
    _printed("5,000 digits", r"no line of JSON has any of rate", f'{{"rate": {BIG}}}'),
    _printed("5,000 digits as a text", r"no line of JSON has any of rate", f'{{"rate": "{BIG}"}}'),
    _printed(
        "fio: counts in words",
        r"damaged, or of another layout",
        '{\n"fio version": "fio-3.3", "jobs": [{"read": {"total_ios": "x"}, "write": {}}]}',
        "fio-json",
    ),
    _printed(
        "nccl-tests: infinite",
        r"it has the number 1e\+300; expected a number from",
        "# size time busbw\n inf inf inf\n 8 1e300 1e300\n",
        "nccl-tests",
    ),
    _lines("data server", "no ranges, 400 MiB", "no ranges", r"taken: 419,430,400 bytes"),
    _lines("data server", "no Content-Length", "no length", r"names no size of data.bin; expected one that sends a Content-Length"),
    _lines("data server", "more than its Content-Length", "more", r"taken: 8,388,608 bytes"),
    _lines("data server", "less than its Content-Length", "less", r"does not answer|ended after"),
    _lines("data server", "a range of more than was asked for", "long range", r"sent more than the 33,554,432 bytes of a range"),
    _lines("data server", "a gzip bomb", "gzip", r"Content-Encoding gzip, which was not asked for"),
)


class _Server(BaseHTTPRequestHandler):
    """A web server's ways to send a file of SIZE bytes."""

    protocol_version = "HTTP/1.1"
    SIZE = 400 << 20

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        how = self.path.split("/")[1].replace("%20", " ")
        sent = stated = 8 << 20 if how in ("more", "less", "gzip") else self.SIZE
        ranged = self.headers.get("Range") is not None and how == "long range"
        self.send_response(206 if ranged else 200)
        if how == "no length":
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            return
        if how == "gzip" and body:
            self.send_header("Content-Encoding", "gzip")
        sent = {"more": sent + (1 << 20), "less": sent - (1 << 20)}.get(how, sent)
        self.send_header("Content-Length", str(stated))
        if how in ("more", "less"):
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        piece = bytes(1 << 20)
        try:
            for _ in range(sent >> 20 if body else 0):
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True


@contextmanager
def served() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Installation:
    """A new one in `folder`, with a provider whose price history is prices.csv."""

    def __init__(self, folder: Path) -> None:
        from plumbline.archive import open_archive

        self.folder, self.config = folder, folder / "config"
        left_out = ("example-*", "*-8gpu.yaml", "contracts", "teams", "economics.yaml")
        shutil.copytree(ROOT / "include/config", self.config, ignore=shutil.ignore_patterns(*left_out))
        place = self.config / "providers" / "local-2core.yaml"
        place.write_text(place.read_text() + "price_sources:\n  - {kind: csv, file: prices.csv}\n")
        for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
            del os.environ[name]
        os.environ |= {"PLUMBLINE_HOME": str(folder / "home"), "PLUMBLINE_CONFIG": str(self.config)}
        from tests.data.result_documents import document, training_metrics, trial

        with open_archive() as archive:
            archive.record(document(trial(), metrics=training_metrics(step_time=0.1)), uri="file:///nowhere")

    def run(self, case: Hostile) -> Outcome:
        """The case, by its kind's own command."""
        return {
            "invoice": self._invoice,
            "prices": self._prices,
            "access log": self._log,
            "script report": self._script,
            "TensorBoard": self._script,
            "benchmark file": self._benchmark,
            "published table": self._table,
            "container output": self._output,
            "data server": self._data,
        }[case.kind](case)

    def _write(self, case: Hostile, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = case.content()
        if content == b"SPARSE":
            with file.open("wb") as sparse:
                sparse.truncate(400 << 20)
        else:
            file.write_bytes(content)
        return file

    @staticmethod
    def _command(*words: str) -> Outcome:
        from typer.testing import CliRunner

        from plumbline.cli.app import app

        done = CliRunner().invoke(app, list(words))
        error = done.exception
        expected = error is None or isinstance(error, SystemExit)
        return Outcome(done.exit_code, done.output, "" if expected else f"{type(error).__name__}: {error}"[:200])

    def _invoice(self, case: Hostile) -> Outcome:
        return self._command("cost", "reconcile", str(self._write(case, "invoice.csv")))

    def _prices(self, case: Hostile) -> Outcome:
        self._write(case, "config/prices.csv")
        return self._command("prices", "check", "local-2core")

    def _log(self, case: Hostile) -> Outcome:
        file = self._write(case, "access.jsonl")
        return self._command("workload", "from-log", str(file), "--name", "hostile", "--format", "litellm", "--config", str(self.config))

    def _script(self, case: Hostile) -> Outcome:
        folder = self.folder / "script"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        events = case.kind == "TensorBoard"
        self._write(case, "script/given")
        command = "mkdir runs && cp given runs/events.out.tfevents.1" if events else "cat given"
        (folder / "train.sh").write_text(f"{command}\n")
        words = ("--folder", str(folder), "--name", "hostile", "--accelerator", "cpu", "--limit", "5s", "--tokens", "8")
        pattern = r"(x*a+x*)+b(?P<loss>\d+)" if "pattern" in case.name else _PRINTED if case.content().startswith(b"step") else None
        given = ("--report", pattern) if pattern else ()
        return self._command("workload", "new", "--yes", "--replace", "--command", "sh train.sh", *words, *given)

    def _benchmark(self, case: Hostile) -> Outcome:
        file = self._write(case, "result.json")
        where = ("--provider", "local-2core", "--workload", "chat-tiny-cpu")
        return self._command("archive", "import", str(file), "--from", "vllm-bench", *where)

    def _table(self, case: Hostile) -> Outcome:
        return self._command("archive", "import-mlperf", str(self._write(case, "runs.csv")))

    @staticmethod
    def _output(case: Hostile) -> Outcome:
        """As a trial reads it: the format's own check of a declaration, and its reader."""
        from plumbline.declarations.workloads.container import ContainerTask
        from plumbline.formats import COMMAND_OUTPUTS, UnreadableOutput

        metrics = {"metrics": {"rate": {"unit": "1/s", "better": "higher"}}} if case.words[0] == "jsonl" else {}
        task = ContainerTask.model_validate_json(
            json.dumps({"kind": "container", "command": ["it"], "results": {"format": case.words[0]}} | metrics)
        )
        try:
            found = COMMAND_OUTPUTS[task.results.format].output(case.content().decode(), task.declared_numbers)
        except UnreadableOutput as error:
            return Outcome(1, str(error))
        return Outcome(0, str([row.value for row in found.rows]))

    def _data(self, case: Hostile) -> Outcome:
        """As a trial fetches a script's data."""
        from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint
        from plumbline.harness.inference.checkpoint.sources import AccessRefused, FetchFailed, UrlData

        into = self.folder / "data"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        with served() as url:
            try:
                moved = UrlData(f"{url}/{case.content().decode().replace(' ', '%20')}/data.bin").download(into, lambda _: None)
            except (AccessRefused, FetchFailed, BrokenCheckpoint) as error:
                return Outcome(1, str(error))
            finally:
                shutil.rmtree(into)
        return Outcome(0, f"taken: {moved:,} bytes")


def peak_mib() -> float:
    """The most memory that this process took, as the kernel counts it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024  # type: ignore[index]


def quick() -> list[Hostile]:
    """All but most of those that `workload new` tries, seconds each: of these kinds the first two."""
    tried = {kind: [case for case in CASES if case.kind == kind][2:] for kind in ("script report", "TensorBoard")}
    return [case for case in CASES if case not in tried.get(case.kind, ())]


def outcomes(cases: list[Hostile]) -> Iterator[tuple[Hostile, Outcome]]:
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder))
        for case in cases:
            yield case, installation.run(case)


def sentence(case: Hostile, outcome: Outcome) -> str:
    """The words that the case expects, with what is around them; what was said otherwise."""
    said = " ".join(outcome.said.split())
    found = re.search(case.says, said)
    if found is None:
        return f"?? {said[-200:]}"
    begin = max(said.rfind(". ", 0, found.start()) + 1, found.start() - 60, 0)
    return said[begin : found.end() + 60].strip()


def main(words: list[str]) -> None:
    """With `--json`: a line for each case and one with the peak; else a table. `--quick`: see `quick`. Kinds may follow."""
    as_json, kinds = "--json" in words, tuple(word for word in words if not word.startswith("--"))
    cases = [case for case in (quick() if "--quick" in words else CASES) if not kinds or case.kind in kinds]
    if not as_json:
        sys.stdout.write("| kind | content | status | said |\n|---|---|---|---|\n")
    for case, outcome in outcomes(cases):
        if as_json:
            text = " ".join(outcome.said.split())
            sys.stdout.write(json.dumps([case.kind, case.name, outcome.status, text[:4000], outcome.traceback]) + "\n")
        else:
            shown = outcome.traceback or sentence(case, outcome)
            sys.stdout.write(f"| {case.kind} | {case.name} | {outcome.status} | {shown.replace('|', chr(92) + '|')} |\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(["peak MiB", peak_mib()]) + "\n" if as_json else f"\npeak memory: {peak_mib():.0f} MiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
