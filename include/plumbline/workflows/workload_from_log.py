"""Turn an access log into a workload: the recorded arrivals, lengths and conversations as a trace, and a declaration that replays it."""

from __future__ import annotations

import csv
import io
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from plumbline.declarations import DeclarationError, InferenceWorkload, installation_paths
from plumbline.declarations.loader import load_file
from plumbline.declarations.workloads.load import DAY_S, MAX_TRACE_ROWS
from plumbline.declarations.workloads.text_file import decode, read_bytes
from plumbline.declarations.yaml_source import UnreadableYaml, read_yaml
from plumbline.formats.reading.access_log import ACCESS_LOGS, AccessLog, LoggedRequest, read_log
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.whole_file import whole_file

TEMPLATE = "chat-replay-cpu"
MAX_LOG_BYTES = 2**30
_WARMUP_S = 10.0
_HEADER = "# Written by `plumbline workload from-log`. The lengths below are of the warm-up: the trace has its own.\n"


@dataclass(frozen=True)
class WorkloadOfLog:
    """The written workload. `unknown`: values that the log lacks, and their replacements. Lengths in tokens: min, p50, p95, max."""

    name: str
    format: str
    workload: Path
    trace: Path
    requests: int
    conversations: int
    seconds: float
    input_tokens: tuple[int, int, int, int]
    output_tokens: tuple[int, int, int, int]
    skipped: dict[str, int]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """A request of the trace: seconds since the first one; `think_s` since the answer before it in its conversation."""

    arrived_s: float
    input_tokens: int
    output_tokens: int
    conversation: int | None = None
    think_s: float | None = None


def workload_from_log(
    file: Path,
    name: str,
    *,
    kind: str | None = None,
    like: str = TEMPLATE,
    start_s: float = 0.0,
    duration_s: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    config: Path | None = None,
) -> WorkloadOfLog:
    """Write the workload `name` and its trace into the declarations `config` (default: the installation's).

    `like`: the declared workload whose model, server and limits it takes. `start_s`, `duration_s`: the part of the log; default: all of it.
    `input_tokens`, `output_tokens`: for requests whose lengths the log lacks; the median of the others if None.
    Raises UnusableFile, DeclarationError or UnreadableYaml; nothing is written then."""
    root = config or installation_paths().config
    workload_file, trace_file = root / "workloads" / "inference" / f"{name}.yaml", root / "traces" / f"{name}.csv"
    for path in (workload_file, trace_file):
        if path.exists():
            raise UnusableFile(f"{path.name} exists already; expected another --name")
    template = _template(root, like)
    logged = decode(read_bytes(file, str(file), "an access log", MAX_LOG_BYTES, "a part of the log"), file.name)
    # Progress bars in a server's log end with \r alone.
    log = read_log(logged.replace("\r\n", "\n").replace("\r", "\n"), file.name, kind)
    unknown = list(log.notes)
    requests = _part(log.requests, file.name, start_s, duration_s)
    requests = _with_lengths(log, requests, file.name, input_tokens, output_tokens, unknown)
    turns = _conversations(requests, unknown)
    span = max(1.0, turns[-1].arrived_s)
    lasts = duration_s if duration_s is not None else float(math.ceil(span + 1e-6))
    declared = _declaration(template, name, like, log, turns, lasts)
    trace, text = _trace(turns), _HEADER + yaml.safe_dump(declared, sort_keys=False, width=140, allow_unicode=True)
    _check(name, text, trace)
    for path in (workload_file, trace_file):
        path.parent.mkdir(parents=True, exist_ok=True)
    # The workload last, so that none names a trace that is not there.
    with whole_file(workload_file) as workload, whole_file(trace_file) as written:
        written.write_text(trace, encoding="utf-8")
        workload.write_text(text, encoding="utf-8")
    return WorkloadOfLog(
        name,
        log.format,
        workload_file,
        trace_file,
        len(turns),
        len({turn.conversation for turn in turns if turn.conversation is not None}),
        lasts,
        _distribution([turn.input_tokens for turn in turns]),
        _distribution([turn.output_tokens for turn in turns]),
        log.skipped,
        tuple(unknown),
    )


def _template(root: Path, like: str) -> dict[str, Any]:
    path = root / "workloads" / "inference" / f"{like}.yaml"
    if not path.is_file():
        raise UnusableFile(f'no inference workload is called "{like}"; expected --like with one of {path.parent}')
    try:
        data, _ = read_yaml(path)
    except UnreadableYaml as error:
        raise UnusableFile(f"{path.name}:{error.line} {error}") from None
    if not isinstance(data, dict) or "model" not in data or "server" not in data:
        raise UnusableFile(f"{path.name} has no model and server; expected an inference workload")
    return data


def _part(requests: Sequence[LoggedRequest], name: str, start_s: float, duration_s: float | None) -> list[LoggedRequest]:
    origin = requests[0].at + start_s
    until = math.inf if duration_s is None else origin + duration_s
    window = [request for request in requests if origin <= request.at < until]
    if not window:
        raise UnusableFile(f"{name} has no request in the chosen part; its requests span {requests[-1].at - requests[0].at:.6g} s")
    if len(window) > MAX_TRACE_ROWS or window[-1].at - window[0].at >= DAY_S:
        raise UnusableFile(
            f"{name} has {len(window):,} requests in {window[-1].at - window[0].at:,.0f} s; expected --duration for a part of at most "
            f"{MAX_TRACE_ROWS:,} requests and a day"
        )
    return window


def _with_lengths(
    log: AccessLog, requests: Sequence[LoggedRequest], name: str, read: int | None, written: int | None, unknown: list[str]
) -> list[LoggedRequest]:
    """The requests that generated something, with all lengths."""
    empty = [request for request in requests if request.input_tokens == 0 or request.output_tokens == 0]
    if empty:
        log.skip("without a token in or out", len(empty))
    usable = [request for request in requests if request.input_tokens != 0 and request.output_tokens != 0]
    for key, given in (("input_tokens", read), ("output_tokens", written)):
        lengths = [length for request in usable if (length := getattr(request, key)) is not None]
        missing = len(usable) - len(lengths)
        if not missing:
            continue
        if given is None and not lengths:
            option = f"--{key.replace('_', '-')}"
            raise UnusableFile(
                f"{name} has {key.replace('_', ' ')} of no request; expected {option} with a number to use for all ({ACCESS_LOGS[log.format].hint})"
            )
        stand_in = given if given is not None else round(statistics.median(lengths))
        unknown.append(
            f"{key.replace('_', ' ')} of {missing} of {len(usable)} requests: {stand_in} is used, {'as given' if given else 'the median of the others'}"
        )
        filled: dict[str, Any] = {key: stand_in}
        usable = [request if getattr(request, key) is not None else replace(request, **filled) for request in usable]
    if not usable:
        raise UnusableFile(f"{name} has no request with tokens in and out; expected at least one")
    return usable


def _conversations(requests: Sequence[LoggedRequest], unknown: list[str]) -> list[Turn]:
    """The requests as turns. A request that came before the last answer of its conversation had ended is one of its own."""
    origin = requests[0].at
    count = Counter(request.conversation for request in requests)
    numbers: dict[str, int] = {}
    last: dict[str, LoggedRequest] = {}
    turns, unended, overlapping = [], 0, 0
    for request in requests:
        arrived = round(request.at - origin, 6)
        turn = Turn(arrived, request.input_tokens or 1, request.output_tokens or 1)
        key = request.conversation
        if key is None or count[key] == 1:
            turns.append(turn)
            continue
        before = last.get(key)
        if before is None:
            # The log's own ids may name people or systems.
            numbers[key] = len(numbers) + 1
            turn, last[key] = replace(turn, conversation=numbers[key]), request
        elif before.ended is None:
            unended += 1
        elif before.ended > request.at:
            overlapping += 1
        else:
            turn, last[key] = replace(turn, conversation=numbers[key], think_s=round(request.at - before.ended, 6)), request
        turns.append(turn)
    if unended:
        unknown.append(f"ends of answers: {unended} next turns come at their recorded times, and are not linked to the turn before")
    if overlapping:
        unknown.append(
            f"order within conversations: {overlapping} requests came before the last answer had ended, and are requests of their own"
        )
    followed = {turn.conversation for turn in turns if turn.think_s is not None}
    return [turn if turn.conversation in followed else replace(turn, conversation=None) for turn in turns]


def _declaration(template: dict[str, Any], name: str, like: str, log: AccessLog, turns: Sequence[Turn], lasts: float) -> dict[str, Any]:
    """The template's model, server and limits with the trace as its steady phase, after a warm-up of its mean rate."""
    longest = max(turn.input_tokens + turn.output_tokens for turn in turns)
    model = dict(template["model"])
    if "architecture" in model and isinstance(model.get("context"), int) and model["context"] < longest:
        model["context"] = 2 ** math.ceil(math.log2(longest))  # a shape with weights from a seed can have any
    rate = max(len(turns) / lasts, 2 / _WARMUP_S)
    inherited = {key: template["requests"][key] for key in ("text", "output", "seed") if key in template.get("requests", {})}
    requests = {
        # Means, rounded down: together no longer than the longest request.
        "input_tokens": {"constant": sum(turn.input_tokens for turn in turns) // len(turns)},
        "output_tokens": {"constant": sum(turn.output_tokens for turn in turns) // len(turns)},
        **inherited,
    }
    requests.setdefault("seed", 7)
    phases = [
        {"name": "warmup", "arrivals": {"poisson": {"rate": f"{rate:.4g}/s"}}, "duration": f"{_WARMUP_S:g}s"},
        {"name": "steady", "arrivals": {"trace": {"file": f"{name}.csv", "layout": "plumbline"}}, "duration": f"{lasts:g}s"},
    ]
    criteria = [text for text in template.get("acceptance", ()) if str(text).rstrip().endswith(" in steady")]
    changed = {
        "kind": "inference",
        "name": name,
        "version": 1,
        "description": f"{len(turns):,} requests of a {log.format} log, replayed on the model of {like}",
        "model": model,
        "requests": requests,
        "phases": phases,
        "acceptance": criteria,
    }
    dropped = ("primary", "drift", "retrieval", *(() if criteria else ("acceptance",)))
    result = {key: changed.get(key, value) for key, value in template.items() if key not in dropped}
    result |= {key: value for key, value in changed.items() if key not in result and key not in dropped}
    result["server"] = {**template["server"], **({"prefix_cache": "off"} if template["server"].get("prefix_cache") == "primed" else {})}
    return result


def _trace(turns: Sequence[Turn]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("arrived_s", "input_tokens", "output_tokens", "conversation", "think_s"))
    for turn in turns:
        think = "" if turn.think_s is None else f"{turn.think_s:.6f}".rstrip("0").rstrip(".")
        rows.writerow((f"{turn.arrived_s:.6f}", turn.input_tokens, turn.output_tokens, turn.conversation or "", think))
    return text.getvalue()


def _check(name: str, text: str, trace: str) -> None:
    """DeclarationError where the declarations' loader would refuse what is to be written."""
    with tempfile.TemporaryDirectory(prefix="plumbline-from-log-") as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        (Path(folder) / f"{name}.csv").write_text(trace, encoding="utf-8")
        try:
            load_file(file, InferenceWorkload)
        except DeclarationError as error:
            problems = [replace(problem, file=file.name, line=problem.line) for problem in error.problems]
            raise DeclarationError(problems) from None


def _distribution(values: Sequence[int]) -> tuple[int, int, int, int]:
    ordered = sorted(values)
    median, high = (ordered[math.ceil(q * len(ordered)) - 1] for q in (0.5, 0.95))
    return ordered[0], median, high, ordered[-1]
