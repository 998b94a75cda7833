"""AIPerf's `profile_export_aiperf.json` (schema 1.x)."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import Fields, json_fields
from plumbline.results.benchmark_files.records import day_of, lengths, record_rows
from plumbline.results.benchmark_files.run import BY_TOKENS, BenchmarkFile, Load, Run, gap
from plumbline.results.document import Reason, metric_row
from plumbline.results.published import Gap

FILE = "profile_export_aiperf.json of `aiperf profile`"
MARKS = ("aiperf_version", "input_config.phases", "request_latency.unit")


def read(raw: bytes, file: str) -> BenchmarkFile:
    """AIPerf's inter-token latency is each request's mean: the field's TPOT."""
    whole = json_fields(raw, file)
    config = whole.part("input_config")
    requests = whole.part("request_count").whole("avg", least=1)
    streaming = bool(config.part("endpoint").values.get("streaming"))
    rows = [*record_rows(whole, requests)]
    if failed := whole.maybe_part("request_error_rate"):
        percent = failed.number("avg", failed.text("unit", "%"))
        rows.append(metric_row("error_rate", percent / 100, requests, method=f"request_error_rate.avg = {percent:g} %"))
    run = Run(
        load=_load(config),
        metrics=tuple(rows),
        requests=requests,
        gaps=tuple(_gaps(whole)),
        invalid=tuple(_invalid(whole)),
        asked=lengths(whole),
        first_token_expected=streaming,
    )
    return BenchmarkFile("aiperf", whole.text("aiperf_version"), day_of(whole, "start_time"), (run.with_common_gaps(),))


def _load(config: Fields) -> Load:
    phases = config.parts("phases")
    measured = [p for p in phases if p.values.get("kind", "profiling") == "profiling"]
    if len(measured) != 1:
        raise config.error("phases", f"has {len(measured)} of kind profiling", "exactly one")
    phase = measured[0]
    kind = phase.text("type", "concurrency, poisson, gamma, constant or another type of load")
    if kind == "concurrency":
        return Load("closed", concurrency=phase.whole("concurrency", least=1))
    if kind in ("poisson", "gamma", "constant"):
        limit = phase.whole("concurrency", least=1) if phase.has("concurrency") else None
        return Load("open", limit, phase.number("rate", "requests/s"), kind)
    return Load("unknown")


def _gaps(whole: Fields) -> list[Gap]:
    gaps = [gap("tpot_as_itl", "the file's inter_token_latency is each request's mean: it is imported as time_per_output_token")]
    client, server = whole.maybe_part("output_sequence_length"), whole.maybe_part("usage_completion_tokens")
    if client and server and client.number("avg") != server.number("avg"):
        gaps.append(
            gap(
                "tokens_counted_by_client",
                f"{client.number('avg'):g} output tokens a request by the client's tokenizer, {server.number('avg'):g} by the server's",
                *BY_TOKENS,
            )
        )
    return gaps


def _invalid(whole: Fields) -> list[Reason]:
    if whole.values.get("was_cancelled") is True or whole.values.get("is_complete") is False:
        return [Reason(code="run_cancelled", detail="the run was cancelled before it ended")]
    return []
