"""The acceptance sheet of a fleet: one row a node, for a person as HTML, and as JSON."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from plumbline.analysis.node_acceptance import UPGRADE, FleetVerdict, Node, NodeVerdict
from plumbline.declarations import Provider
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_count, format_quantity, join_words
from plumbline.words.acceptance import figure_text, judge_delivery, judge_node, lacking_of, network_text, reasons_of, remedy_of

COLUMNS = (
    ("verdict", "verdict"),
    ("serials", "GPU serial numbers"),
    ("driver", "driver"),
    ("firmware", "VBIOS"),
    ("pcie", "PCIe lanes"),
    ("power", "power limit"),
    ("ecc", "ECC"),
    ("rows", "remapped rows"),
    ("nvlink", "NVLinks"),
    ("rdma", "RDMA"),
)


def _values(node: Node, last: str, group: str = "gpu") -> str:
    """The distinct values of a fact over the GPUs (or adapters) of a node."""
    found = [v for key, v in sorted(node.facts.items()) if key.startswith(f"{group}.") and key.endswith(f".{last}") and v is not None]
    return ", ".join(dict.fromkeys(map(str, found)))


def _counted(node: Node, *names: str) -> str:
    return ", ".join(f"{name.rpartition('row_remap_')[2] or name} {node.counters[name]}" for name in names if name in node.counters)


def node_row(verdict: NodeVerdict) -> dict[str, str]:
    """The cells of COLUMNS, then each figure under its metric's name; an unknown one is empty."""
    node = verdict.node
    width, widest = _values(node, "pcie_width"), _values(node, "pcie_width_max")
    generation = _values(node, "pcie_generation_max")
    power = _values(node, "power_limit_w")
    return {
        "verdict": verdict.text,
        "serials": " ".join(node.serials),
        "driver": str(node.facts.get("driver.version") or ""),
        "firmware": _values(node, "vbios"),
        "pcie": f"{width} of {widest}{f', gen {generation}' if generation else ''}" if width else "",
        "power": f"{power} W" if power else "",
        "ecc": " ".join(filter(None, ({"True": "on", "False": "off"}.get(_values(node, "ecc"), _values(node, "ecc")),
                                      _counted(node, "ecc_corrected_volatile", "ecc_uncorrected_volatile")))),
        "rows": _counted(node, "rows_remapped_correctable", "rows_remapped_uncorrectable", "row_remap_pending", "row_remap_failure"),
        "nvlink": _values(node, "nvlink_active"),
        "rdma": _values(node, "rate", "infiniband"),
        **{metric: format_quantity(value, METRICS[metric].unit) for metric, value in sorted(node.figures.items())},
    }  # fmt: skip


NO_LIMIT = "No figure has an absolute limit: a fleet that is slow as a whole cannot be seen by comparing its nodes."
ORDER = ("send back", "not measured", UPGRADE, "accept")


def why_of(verdict: NodeVerdict) -> tuple[str, ...]:
    """Why it is not accepted."""
    return tuple(filter(None, (*reasons_of(verdict), remedy_of(verdict), *lacking_of(verdict))))


def summary(fleet: FleetVerdict) -> str:
    whole, parts = format_count(len(fleet.nodes), "node"), []
    back = tuple(verdict for verdict in fleet.returned if not verdict.reset_first)
    for what, verdicts in (
        ("send back", back),
        ("reset first", fleet.to_reset),
        ("not measured:", fleet.unmeasured),
        (f"{UPGRADE}:", fleet.upgrading),
    ):
        if verdicts:
            parts.append(f"{what} {len(verdicts)} of {whole}: {join_words([v.node.name for v in verdicts])}")
    if not fleet.nodes:
        return "no node was measured"
    return "; ".join(parts) or (f"all {whole} are accepted" if len(fleet.nodes) > 1 else "the node is accepted")


def method(fleet: FleetVerdict) -> tuple[str, ...]:
    """What the test could find, one line a metric, and what it cannot see."""
    tested = any(test.detectable is not None for test in fleet.tests)
    lines = [figure_text(test) for test in fleet.tests]
    if tested:
        lines.append("A suspect node is not measured until it is measured again; it goes back if it is slow both times.")
    if fleet.limited:
        lines.append(f"Absolute limits: {join_words([name.replace('_', ' ') for name in fleet.limited])}.")
    else:
        lines.append(NO_LIMIT)
    return (*lines, network_text(fleet))


def sheets(fleet: FleetVerdict, campaign_id: str, provider: Provider, measured: str) -> Mapping[str, bytes]:
    """acceptance.html and acceptance.json. `measured`: when."""
    head = f"{'SIMULATED: ' if provider.simulated else ''}Acceptance of {provider.name}: {provider.instance_type}, {provider.region}"
    about = f"campaign {campaign_id}, planned {measured}"
    data: dict[str, Any] = {
        "format": 1,
        "campaign_id": campaign_id,
        "provider": provider.name,
        "simulated": provider.simulated,
        "send_back": {v.node.name: reasons_of(v) for v in fleet.returned},
        "not_measured": {v.node.name: "; ".join(lacking_of(v)) for v in fleet.unmeasured},
        "upgrade_in_progress": {v.node.name: "; ".join(lacking_of(v)) for v in fleet.upgrading},
        "judgement": asdict(judge_delivery(fleet)),
        "absolute_limits": fleet.limited,
        "nodes": [_node_data(v) for v in fleet.nodes],
        "tests": [asdict(test) for test in fleet.tests],
    }
    return {
        "acceptance.html": _html(fleet, head, about).encode(),
        "acceptance.json": (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode(),
    }


def _node_data(verdict: NodeVerdict) -> dict[str, Any]:
    figures = {name: value if math.isfinite(value) else None for name, value in verdict.node.figures.items()}
    facts = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in verdict.node.facts.items()}
    return {
        **asdict(verdict.node),
        "figures": figures,
        "facts": facts,
        "verdict": verdict.text,
        "judgement": asdict(judge_node(verdict)),
        "reasons": reasons_of(verdict),
        "lacking": lacking_of(verdict),
        "slow": dict(verdict.slow),
    }


def _html(fleet: FleetVerdict, head: str, about: str) -> str:
    """Nodes to send back first; what all nodes share is said once, and serial numbers open on demand."""
    figures = sorted({metric for verdict in fleet.nodes for metric in verdict.node.figures})
    titles = {**dict(COLUMNS), **{name: name.replace("_", " ") for name in figures}}
    verdicts = sorted(fleet.nodes, key=lambda v: ORDER.index(v.text))
    cells = {verdict.node.name: node_row(verdict) for verdict in verdicts}
    values = {name: {row.get(name, "") for row in cells.values()} for name in titles}
    shared = [f"{titles[name]} {next(iter(of))}" for name, of in values.items() if len(of) == 1 < len(cells) and of != {""}]
    names = [name for name, of in values.items() if len(of) > 1 or (len(cells) == 1 and of != {""})]
    escape = html.escape
    rows = ""
    for verdict in verdicts:
        row = cells[verdict.node.name]
        why = "<br>".join(map(escape, why_of(verdict)))
        serials = "".join(f"<li>{escape(serial)}</li>" for serial in verdict.node.serials)
        shown = {name: escape(row.get(name, "")) for name in names}
        if "verdict" in shown:
            shown["verdict"] = f'<span class="{judge_node(verdict).tone}">{shown["verdict"]}</span>'
        if serials and "serials" in shown:
            shown["serials"] = f"<details><summary>{len(verdict.node.serials)}</summary><ul>{serials}</ul></details>"
        rows += f"<tr><th>{escape(verdict.node.name)}</th>{''.join(f'<td>{shown[name]}</td>' for name in names)}<td>{why}</td></tr>\n"
    heads = "".join(f"<th>{escape(titles[name])}</th>" for name in names)
    alike = f"<p>All nodes: {escape('; '.join(shared))}.</p>\n" if shared else ""
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(head)}</title>\n'
        "<style>:root{color-scheme:light dark}body{font:15px system-ui;margin:1em}div{overflow-x:auto}table{border-collapse:collapse}"
        "th,td{border-bottom:1px solid #8888;padding:.3em .6em;text-align:left;vertical-align:top}ul{margin:0;padding-left:1.2em}"
        ".good{color:#2a8a3e}.warn{color:#b36b00}.bad{color:#d33}</style>\n"
        f"<h1>{escape(head)}</h1>\n<p>{escape(about)}</p>\n"
        f"<p><strong class='{judge_delivery(fleet).tone}'>{escape(summary(fleet))}</strong></p>\n{alike}"
        f"<div><table><tr><th>node</th>{heads}<th>why</th></tr>\n{rows}</table></div>\n<h2>What the test finds</h2>\n<ul>"
        f"{''.join(f'<li>{escape(line)}</li>' for line in method(fleet))}</ul>\n</html>\n"
    )
