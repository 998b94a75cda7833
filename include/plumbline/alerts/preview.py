"""Preview of a message without Slack, as an HTML page or terminal lines, and an example finding."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plumbline.alerts.message import AlertContext, finding_links
from plumbline.alerts.slack.mrkdwn import StyledSpan, parse_spans, unescape
from plumbline.presentation.metric_history import History, HistoryPoint
from plumbline.results.finding import Finding, Member

if TYPE_CHECKING:
    from plumbline.alerts.chart import Picture
    from plumbline.alerts.message import Message


_BLOCK_TYPES = ("header", "section", "context", "divider")


@dataclass(frozen=True)
class Preview:
    """A preview of Slack under one name: the message, its chart, and the first reply in its thread."""

    name: str
    message: Message
    details: Message | None = None
    picture: Picture | None = None


@dataclass(frozen=True)
class PreviewLine:
    """One line of a message in a terminal. `kind`: header, text, context or divider."""

    kind: str
    spans: tuple[StyledSpan, ...] = ()


def page(message: Message, picture: Picture | None = None, details: Message | None = None) -> str:
    """An HTML page that needs no network: the message with its chart and, below it, its thread. It follows the reader's light or dark.

    ValueError for a block that is not known here: a preview that leaves something out is none.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("plumbline.alerts"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    shown = None if picture is None else base64.b64encode(picture.data).decode()
    return environment.get_template("message.html.j2").render(
        blocks=[_block(b) for b in message.blocks],
        details=[_block(b) for b in details.blocks] if details is not None else [],
        title=message.text.splitlines()[0],
        picture=picture,
        png=shown,
    )


def lines(message: Message) -> list[PreviewLine]:
    """The message line by line, fields below each other. ValueError for a block that is not known here."""
    shown_lines: list[PreviewLine] = []
    for block in message.blocks:
        kind = _block_type(block)
        if kind == "divider":
            shown_lines.append(PreviewLine("divider"))
        elif kind == "header":
            shown_lines.append(PreviewLine("header", (StyledSpan(block["text"]["text"], bold=True),)))
        elif kind == "context":
            shown_lines += _lines("context", [e["text"] for e in block["elements"] if "text" in e])
        else:
            fields = [f["text"].replace("*\n", ":* ", 1) for f in block.get("fields", ())]
            shown_lines += _lines("text", [*([block["text"]["text"]] if "text" in block else []), *fields])
    return shown_lines


def _lines(kind: str, texts: Sequence[str]) -> list[PreviewLine]:
    return [PreviewLine(kind, tuple(parse_spans(line))) for text in texts for line in text.split("\n")]


def _block_type(block: dict[str, Any]) -> str:
    kind = str(block["type"])
    if kind not in _BLOCK_TYPES or "accessory" in block:
        raise ValueError(
            f'a preview cannot show a block "{kind}"{" with an accessory" if kind in _BLOCK_TYPES else ""}; expected {", ".join(_BLOCK_TYPES)}'
        )
    return kind


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """A block with its texts taken apart, for the template."""
    return {
        "type": _block_type(block),
        "plain": unescape(block["text"]["text"]) if block["type"] == "header" else "",
        "text": parse_spans(block["text"]["text"]) if block["type"] == "section" and "text" in block else [],
        "fields": [parse_spans(f["text"]) for f in block.get("fields", ())],
        "elements": [parse_spans(e["text"]) for e in block.get("elements", ()) if "text" in e],
    }


_SERIES = "training/gpt-1b@2/h1/torch/example-eks-p5/us-east-1/p5.48xlarge"
_MONTHS = ("2026-03", "2026-04", "2026-05", "2026-06", "2026-07", "2026-08", "2026-09", "2026-10", "2026-11")
_STEP_MS = (412.0, 411.2, 412.9, 411.7, 412.4, 411.5, 412.2, 411.9, 444.6)
_SCATTER = (0.996, 0.998, 0.999, 1.0, 1.0, 1.001, 1.001, 1.003, 1.004)

EXAMPLE_FINDING = Finding(
    finding_id="example00000",
    series_key=_SERIES,
    campaign_id="2026-11",
    kind="performance",
    severity="page",
    evidence="step_time +7.9 % (95 %: +6.8 … +9.1), 9 of 9 repeats, and 1 more series",
    explanation=(
        "explained by: driver 550.90.07 → 570.86.15 and SM clock cap 1980 → 1755 MHz (3 of 3 nodes); matmul −8.2 % agrees; "
        "memory bandwidth unchanged"
    ),
    provider="example-eks-p5",
    workload_kind="training",
    workload="gpt-1b",
    subject="performance",
    title="step_time +7.9 %",
    effect=0.079,
    ci_low=0.068,
    ci_high=0.091,
    metric="step_time",
    members=(
        Member("step_time", "training gpt-1b: step_time +7.9 %", 0.079, 0.068, 0.091, verdict="regressed", series_key=_SERIES),
        Member("tokens_per_second", "training gpt-1b: tokens_per_second −7.3 %", -0.073, -0.083, -0.064, verdict="regressed"),
        Member("inter_token_latency", "inference chat-8b: inter_token_latency +6.1 %", 0.061, 0.048, 0.075, verdict="regressed"),
    ),
    attributed_to=("nvidia.driver", "gpu.clock_cap"),
    causes=("driver 550.90.07 → 570.86.15", "SM clock cap 1980 → 1755 MHz"),
    baseline_campaigns=("2026-09", "2026-10"),
    series=(_SERIES,),
    standing=(_SERIES,),
)

EXAMPLE_CONTEXT = AlertContext(
    owner="S0123456789",
    cost="costs about 5,700 USD a month (4,881 … 6,531) at the declared volume: 730 instance-hours, on_demand 98.32 USD/h",
    usd=5670.0,
    links=finding_links(EXAMPLE_FINDING, "https://airflow.example.com", "2026-11.example-eks-p5.training.gpt-1b.0200.r1", asked=True),
)

EXAMPLE_HISTORY = History(
    title="example-eks-p5 · gpt-1b · step time",
    unit="ms",
    points=tuple(
        HistoryPoint(month, tuple(step * factor for factor in _SCATTER), month in EXAMPLE_FINDING.baseline_campaigns)
        for month, step in zip(_MONTHS, _STEP_MS, strict=True)
    ),
    since=len(_MONTHS) - 1,
    change="+7.9 % (95 %: +6.8 … +9.1)",
    level=412.0,
    band=(412.0 * 1.068, 412.0 * 1.091),
)
