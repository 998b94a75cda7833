"""AIPerf's `profile_export_aiperf.json`: with its schema field (1.x), and the layouts before it."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.records import count, day_of, lengths, record_rows
from plumbline.formats.reading.run import BY_TOKENS, BenchmarkFile, Gap, Load, Run, gap, outcome
from plumbline.formats.reading.tool_file import JsonFile, OtherJson, OtherText
from plumbline.formats.registry import register
from plumbline.metrics.rows import Reason

_ARRIVALS = ("poisson", "gamma", "constant")


@register
class AIPerf(JsonFile):
    name = "aiperf"
    order = 10
    file = "profile_export_aiperf.json of `aiperf profile`"
    marks = ("aiperf_version", "input_config.phases")
    older = (("input_config.loadgen",), ("input_config", "records"))
    """Marks of the layouts before `aiperf_version`: figures at the top, or, first of all, under `records`."""
    others = (
        OtherJson("AIPerf's profile_export.jsonl, a row a request", ("metadata.request_start_ns", "metrics")),
        OtherJson("AIPerf's aggregate of several runs", ("metadata.aggregation_type",)),
        OtherJson("AIPerf's time slices of a run", ("timeslices",)),
        OtherText("the CSV of AIPerf or GenAI-Perf, beside which the tool writes a JSON file", r"^Metric,avg,min,max,"),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
        """AIPerf's inter-token latency is each request's mean: the field's TPOT. It counts completed requests and failed ones apart."""
        config = whole.part("input_config")
        figures = whole.maybe_part("records") or whole
        loadgen = config.maybe_part("loadgen") if "phases" not in config.values else None
        load, planned = _load_of_phases(config.parts("phases")) if loadgen is None else _load_of_loadgen(loadgen, config)
        requests = count(figures, "request_count") or 0
        ended, unaccounted = outcome(requests, _failed(whole, figures), planned, "error_request_count over the requests of input_config")
        run = Run(
            load=load,
            metrics=(*record_rows(figures, requests), *ended),
            requests=requests,
            gaps=(*_gaps(figures), *unaccounted),
            invalid=tuple(_invalid(whole)),
            asked=lengths(figures),
            first_token_expected=bool(config.part("endpoint").values.get("streaming")),
        )
        version = whole.text("aiperf_version") if whole.has("aiperf_version") else "layout before aiperf_version"
        return BenchmarkFile(self.name, version, day_of(whole, "start_time"), (finished(run),))


def _failed(whole: Fields, figures: Fields) -> int | None:
    """AIPerf leaves error_request_count out where nothing failed; error_summary then is an empty list."""
    counted = count(figures, "error_request_count")
    if counted is not None:
        return counted
    errors = whole.values.get("error_summary")
    if not isinstance(errors, list):
        return None
    return sum(one.whole("count") for one in whole.parts("error_summary")) if errors else 0


def _load_of_phases(phases: list[Fields]) -> tuple[Load, int | None]:
    """The measured load, and how many requests it was to send."""
    measured = [p for p in phases if (p.values.get("kind") or p.values.get("name")) != "warmup"]
    if len(measured) != 1:
        if not measured:
            raise phases[0].error("kind", "is warmup in every phase", "one phase of kind profiling")
        requests = [_planned(p, "requests", "duration", "sessions") for p in measured]
        total = sum(r for r in requests if r is not None) if None not in requests else None
        return Load("unknown", varies=f"{len(measured)} phases one after another"), total
    phase = measured[0]
    kind = phase.text("type", "concurrency, poisson, gamma, constant or another type of load")
    planned = _planned(phase, "requests", "duration", "sessions")
    limit, varies = phase.maybe_whole("concurrency", least=1), _ramp(phase, "concurrency_ramp", "rate_ramp")
    if kind == "concurrency":
        return Load("closed", limit or 1, varies=varies), planned
    if kind not in _ARRIVALS:
        return Load("unknown", varies=varies), planned
    return _open(phase, limit, kind, phase.maybe_part("rate_series"), varies, "rate", "smoothness"), planned


def _load_of_loadgen(loadgen: Fields, config: Fields) -> tuple[Load, int | None]:
    """The load in a layout without phases."""
    limit, planned = loadgen.maybe_whole("concurrency", least=1), _planned(loadgen, "request_count", "benchmark_duration")
    varies = _ramp(loadgen, "concurrency_ramp_duration", "request_rate_ramp_duration")
    prompts = config.maybe_part("input")
    if loadgen.has("user_centric_rate") or (prompts is not None and prompts.values.get("fixed_schedule") is True):
        return Load("unknown", varies=varies), planned
    series = loadgen.values.get("request_rate_series")
    if loadgen.has("request_rate") or series is not None:
        kind = loadgen.maybe_text("arrival_pattern") or loadgen.maybe_text("request_rate_mode") or "poisson"
        arrivals = kind if kind in _ARRIVALS else None
        return _open(loadgen, limit, arrivals, series, varies, "request_rate", "arrival_smoothness"), planned
    return Load("closed", limit or 1, varies=varies), planned


def _planned(part: Fields, requests: str, *earlier: str) -> int | None:
    """How many requests were to be sent; None where something else may end the run before."""
    return None if any(part.has(name) for name in earlier) else part.maybe_whole(requests)


def _open(part: Fields, limit: int | None, kind: str | None, series: object, varies: str | None, rate: str, smoothness: str) -> Load:
    if series is not None:
        return Load("open", limit, None, kind, varies="a series of rates")
    shape = part.maybe_number(smoothness, least=1e-9) if kind == "gamma" else None
    arrivals = f"gamma (smoothness {shape:.12g})" if shape else kind
    return Load("open", limit, part.number(rate, "requests/s"), arrivals, shape**-0.5 if shape else None, varies=varies)


def _ramp(part: Fields, *names: str) -> str | None:
    name = next((name for name in names if part.values.get(name)), None)
    return f"a ramp of {'the rate' if 'rate' in name else 'concurrency'} at the start" if name else None


def _gaps(figures: Fields) -> list[Gap]:
    gaps = [gap("tpot_as_itl", "the file's inter_token_latency is each request's mean: it is imported as time_per_output_token")]
    counts = [figures.maybe_part(name) for name in ("output_sequence_length", "usage_completion_tokens")]
    client, server = [part.maybe_number("avg", "tokens") if part is not None else None for part in counts]
    if client is not None and server is not None and client != server:
        text = f"{client:g} output tokens a request by the client's tokenizer, {server:g} by the server's"
        gaps.append(gap("tokens_counted_by_client", text, *BY_TOKENS))
    return gaps


def _invalid(whole: Fields) -> list[Reason]:
    if whole.values.get("was_cancelled") is True or whole.values.get("is_complete") is False:
        return [Reason(code="run_cancelled", detail="the run was cancelled before it ended")]
    return []
