"""Acceptance from the command to the signed sheet, on simulated fleets."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import datetime, timezone
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import VALIDITY, document, provider, training_workload, trial
from tests.fakes.cut_writer import full_at_each_page, killed_at_each_change

from plumbline.analysis.node_acceptance import Node, judge_fleet, with_pairs
from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Provider, Thresholds, load
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.kinds.simulation import steps
from plumbline.kinds.simulation.draw import TrialDraw, hardware_of, node_name, probe_rows
from plumbline.launch.failures import NODES_FULL
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.launch.plan import PlanError, RunRequest, on_each_node, pairs_by_rounds, plan
from plumbline.metrics.formatting import format_quantity
from plumbline.results import Reason, Validity
from plumbline.words.acceptance import lacking_of, reasons_of
from plumbline.workflows import accept_nodes, plan_trials

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
BAD = (
    {"kind": "node_fault", "since": "2026-01", "on_nodes": [7], "worse": "4%", "probes": ["matmul_tflops"]},
    {"kind": "node_fault", "since": "2026-01", "on_nodes": [23], "worse": "6%"},
    {"kind": "node_fault", "since": "2026-01", "on_nodes": [41], "worse": "8%", "metrics": ["step_time"], "probes": ["memory_bandwidth"]},
    {"kind": "node_fault", "since": "2026-01", "on_nodes": [12], "counters": {"row_remap_pending": 1}},
    {"kind": "node_fault", "since": "2026-01", "on_nodes": [58], "facts": {"gpu.0.pcie_width": 8}},
)


NETWORK = {
    "kind": "node_fault",
    "since": "2026-01",
    "on_nodes": [11],
    "worse": "100%",
    "metrics": ["peer_bandwidth"],
    "probes": ["peer_bandwidth"],
}


def place(name: str = "fleet", nodes: int = 64, drift: tuple[dict[str, Any], ...] = (), **launcher: Any) -> Provider:
    has = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}
    facts = {"gpu.0.pcie_width": 16, "gpu.0.pcie_width_max": 16}
    fields = {"kind": "simulated", "nodes": nodes, "parallel": 8, "environment": facts, "drift": list(drift), **launcher}
    made: Provider = provider(name, enabled=True, accelerator=has, launcher=fields)
    return made


def declared(where: Provider) -> Declarations:
    thresholds = Thresholds.model_validate_json(
        json.dumps(
            {
                "validity": VALIDITY.model_dump(mode="json"),
                "drift": {"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2},
            }
        )
    )
    workload = training_workload(
        needs={"accelerator": "nvidia", "count": 8}, parallelism={"processes": 8}, repeats={"per_slot": 1, "slots": ["02:00"]}
    )
    pair = workload.model_copy(
        update={"name": "pair", "parallelism": workload.parallelism.model_copy(update={"strategy": "ddp", "nodes": 2})}
    )
    return Declarations({where.name: where}, {w.name: w for w in (workload, pair)}, {}, thresholds)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "PLUMBLINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def accepted(
    known: Declarations,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    campaign: str,
    nodes: int | None = None,
    rounds: int | None = None,
) -> accept_nodes.NodeAcceptance:
    monkeypatch.setattr(plan_trials, "load_in_force", lambda **_: known)
    (where,) = known.providers.values()
    request = accept_nodes.plan_acceptance(known, where.name, nodes=nodes, workload=None, campaign=campaign, now=NOW, rounds=rounds)
    accept_nodes.accept_here(where, request, lambda _: None)
    return accept_nodes.write_sheet(campaign, where, folder / f"{campaign}.zip")


def test_five_bad_nodes_of_64_are_found_and_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = accepted(declared(place(drift=BAD)), monkeypatch, home, "accept-0")
    assert {v.node.name.removeprefix("fleet-node-") for v in first.fleet.unmeasured} == {"7", "23", "41"}, "slow at one look"
    done = accepted(declared(place(drift=BAD)), monkeypatch, home, "accept-1")
    why = {v.node.name.removeprefix("fleet-node-"): " ".join(reasons_of(v)) for v in done.fleet.returned}
    assert sorted(why, key=int) == ["7", "12", "23", "41", "58"]
    assert {name.removeprefix("fleet-node-"): " ".join(texts) for name, texts in done.why_returned.items()} == why
    assert first.why_not_measured["fleet-node-7"] == "; ".join(lacking_of(first.fleet.unmeasured[0]))
    assert "matmul" in why["7"] and "step time" in why["23"] and "memory bandwidth" in why["41"]
    assert "row_remap_pending 1" in why["12"] and "8 PCIe lanes of 16" in why["58"]
    with zipfile.ZipFile(done.pack.file) as pack:
        sheet = json.loads(pack.read("acceptance.json"))
        page = pack.read("acceptance.html").decode()
        pack.extractall(home / "pack")
    assert set(sheet["send_back"]) == {v.node.name for v in done.fleet.returned} and len(sheet["nodes"]) == 64
    assert len({serial for node in sheet["nodes"] for serial in node["serials"]}) == 64 * 8
    assert "SIMULATED" in page and page.count("send back") == 6 and "send back 4 of 64 nodes" in page
    assert "reset first 1 of 64 nodes: fleet-node-12" in page

    def verified() -> str:
        words = [sys.executable, "-I", "verify.py", "--key", done.pack.key]
        return subprocess.run(words, cwd=home / "pack", capture_output=True, text=True, check=False).stdout

    assert "NOT ALL SHOWN: 0 documents signed, 64 not signed, 0 files expired, 0 wrong" in verified()
    (home / "pack" / "acceptance.html").write_text(page.replace("fleet-node-7", "fleet-node-8"))
    assert "WRONG     acceptance.html: its SHA-256 differs" in verified()


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [
        ("insufficient_capacity", "send back"),
        ("wrong_hardware", "send back"),
        ("image_error", "not measured"),
        ("unreachable", "not measured"),
    ],
)
def test_a_failed_trial_sends_its_node_back_only_if_that_is_the_providers(cause: str, verdict: str) -> None:
    asked = trial().model_copy(update={"placement": "each_node", "on_nodes": ("n1",)})
    failed = Validity(status="failed", failure_class=cause, reasons=(Reason(code=cause, detail="it says why"),))
    (judged,) = judge_fleet([accept_nodes._node(document(asked, metrics=(), validity=failed))]).nodes
    assert judged.text == verdict and "it says why" in (*reasons_of(judged), judged.node.missing)


def test_a_node_that_other_jobs_fill_is_not_measured() -> None:
    asked = trial().model_copy(update={"placement": "each_node", "on_nodes": ("n1",)})
    full = Validity(
        status="failed",
        failure_class="insufficient_capacity",
        reasons=(Reason(code="insufficient_capacity", detail=f"0/9 nodes are available: 1 Insufficient nvidia.com/gpu: {NODES_FULL}"),),
    )
    beside = Validity(status="degraded", reasons=(Reason(code="contended_cpu", detail="other processes used 40 % of the cores"),))
    for validity in (full, beside):
        (judged,) = judge_fleet([accept_nodes._node(document(asked, validity=validity))]).nodes
        assert judged.text == "not measured" and not judged.reasons and judged.lacking == (judged.node.missing,)


@pytest.mark.parametrize(
    "noise", [pytest.param({}, marks=pytest.mark.full), {"training": {"run": "3%", "node": "1%"}, "hardware": {"run": "2%", "node": "1%"}}]
)
def test_200_healthy_fleets_have_at_most_four_nodes_in_doubt(noise: dict[str, Any]) -> None:
    alarms = 0
    for seed in range(1, 201):
        where = place(seed=seed, noise=noise)
        known = declared(where)
        trials, gangs = (plan(known, where, RunRequest(f"accept-{seed}", "test", workloads=(name,)), NOW) for name in ("gpt-test", "pair"))
        has, nodes, names = hardware_of(where), [], [node_name(where, i) for i in range(64)]
        for each in on_each_node(trials, names):
            draw = TrialDraw(each)
            rows = [*probe_rows(draw, has, 8), *steps.step_rows(each.workload, 1.0 * draw.slowness("training"), 1.0, draw)]  # type: ignore[arg-type]
            nodes.append(Node(each.on_nodes[0], draw.facts(), accept_nodes.compared_figures(rows), {}))
        assert {"step_time", "matmul_tflops"} <= nodes[0].figures.keys()
        pairs = [
            (t.on_nodes, {r.metric: r.value for r in probe_rows(TrialDraw(t), has, 8) if r.value}) for t in on_each_node(gangs, names, 3)
        ]
        assert len(pairs) == 96
        network = [(on, {"peer_bandwidth": figures["peer_bandwidth"]}) for on, figures in pairs]
        alarms += bool(judge_fleet(with_pairs(nodes, network)).returned)
    assert alarms <= 0.02 * 200


def test_a_node_that_is_slow_three_times_becomes_a_finding_and_ends_with_another_node(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = declared(place(nodes=8, drift=({**BAD[1], "on_nodes": [3]},))), declared(place(nodes=8))
    for number, known, opened in ((1, bad, 0), (2, good, 0), (3, bad, 0), (4, bad, 0), (5, bad, 1), (6, bad, 1)):
        assert len(accepted(known, monkeypatch, home, f"accept-{number}").findings) == opened, number
    with open_archive() as archive:
        (finding,) = archive.findings_of("fleet")
        assert (finding.kind, finding.state) == ("reliability", "open") and "fleet-node-3" in finding.headline
    accepted(good, monkeypatch, home, "accept-7")
    with open_archive() as archive:
        assert [f.state for f in archive.findings_of("fleet")] == ["resolved"]


@pytest.mark.fault(
    "SIGKILL before any change of a judged acceptance", ends="judged again, it is complete", keeps="a whole sheet or none; its finding once"
)
@pytest.mark.fault(
    "the disk is full while an acceptance is judged", ends="an error; judged again, it is complete", keeps="a whole sheet or none"
)
@pytest.mark.parametrize("cut", [pytest.param("killed", marks=pytest.mark.full), "full"])
def test_a_judgement_that_is_cut_at_any_point(home: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    known = declared(place(nodes=8, drift=({**BAD[1], "on_nodes": [3]},)))
    (where,) = known.providers.values()
    for number in (1, 2):
        accepted(known, monkeypatch, home, f"accept-{number}")
    monkeypatch.setattr(plan_trials, "load_in_force", lambda **_: known)
    request = accept_nodes.plan_acceptance(known, where.name, nodes=None, workload=None, campaign="accept-3", now=NOW)
    accept_nodes.accept_here(where, request, lambda _: None)
    sheet = home / "sheet.zip"

    def judge() -> None:
        accept_nodes.write_sheet("accept-3", where, sheet, replace=True)

    with open_archive() as archive:
        again = full_at_each_page(archive, home, judge, monkeypatch) if cut == "full" else killed_at_each_change(archive, home, judge)
        for url in again:
            assert not sheet.exists() or zipfile.ZipFile(sheet).testzip() is None
            with monkeypatch.context() as patch, open_archive(url) as left:
                patch.setenv("PLUMBLINE_ARCHIVE_URL", url)
                assert left.verify() == []
                judge()
                (finding,) = left.findings_of("fleet", unsettled=True)
                assert "fleet-node-3" in finding.headline and left.verify() == []


def test_a_campaign_goes_on_and_a_sample_is_of_the_first_nodes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = declared(place(nodes=8))
    assert [v.node.name for v in accepted(known, monkeypatch, home, "accept-1", nodes=3).fleet.nodes] == [
        f"fleet-node-{i}" for i in range(3)
    ]
    (where,) = known.providers.values()
    ended: list[str] = []
    accept_nodes.accept_here(
        where, accept_nodes.plan_acceptance(known, "fleet", nodes=3, workload=None, campaign="accept-1", now=NOW), ended.append
    )
    with open_archive() as archive:
        assert len(archive.trials(campaign_id="accept-1")) == len(ended) == 3


def test_requests_that_cannot_be_met(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = declared(place(nodes=8))
    monkeypatch.setattr(plan_trials, "load_in_force", lambda **_: known)
    with pytest.raises(PlanError, match="has 8 nodes"):
        accepted(known, monkeypatch, home, "accept-1", nodes=9)
    with pytest.raises(PlanError, match="no declared training workload"):
        accepted(replace(known, workloads={}), monkeypatch, home, "accept-2")
    with open_archive() as archive, pytest.raises(LookupError, match="plumbline accept fleet"):
        accept_nodes.acceptance_verdict(archive, "2026-11", "fleet")


def test_the_node_with_half_the_network_is_found_by_its_pairs_and_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = declared(place(nodes=16, drift=(NETWORK,)))
    first = accepted(fleet, monkeypatch, home, "accept-0", rounds=5)
    assert [v.node.name for v in first.fleet.unmeasured] == ["fleet-node-11"] and not first.fleet.returned
    done = accepted(fleet, monkeypatch, home, "accept-1", rounds=5)
    (slow,) = done.fleet.returned
    assert slow.node.name == "fleet-node-11" and "peer bandwidth" in " ".join(reasons_of(slow))
    assert slow.slow["peer_bandwidth"] == pytest.approx(0.5, abs=0.05)
    with zipfile.ZipFile(done.pack.file) as pack:
        assert "peer_bandwidth" in json.loads(pack.read("acceptance.json"))["nodes"][0]["figures"]
    with open_archive() as archive:
        documents = archive.documents("accept-1").values()
        pairs = [d.trial.on_nodes for d in documents if len(d.trial.on_nodes) == 2]
    assert len(pairs) == 5 * 8 and len(documents) == 16 + len(pairs)


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_rounds_meet_each_pair_once_and_each_node_at_most_once_a_round(count: int) -> None:
    names = [f"n{i}" for i in range(count)]
    pairs = pairs_by_rounds(names, 1000)
    assert {frozenset(pair) for pair in pairs} == {frozenset(pair) for pair in combinations(names, 2)} and len(pairs) == count * (
        count - 1
    ) // 2
    half = count // 2
    for first in range(0, len(pairs), half):
        assert len({name for pair in pairs[first : first + half] for name in pair}) == 2 * half
    assert pairs_by_rounds(names, 1) == pairs[:half]


def test_the_time_of_the_rounds_is_known_before_they_start() -> None:
    """64 nodes, 8 trials at a time: 32 pairs are 4 turns a round, 63 rounds."""
    known = declared(place())
    (where,) = known.providers.values()
    request = accept_nodes.plan_acceptance(known, "fleet", nodes=None, workload=None, campaign=None, now=NOW, rounds=100)
    said = accept_nodes.pair_time(known, where, request, [str(i) for i in range(64)])
    assert "2016 pairs in 63 rounds of pair" in said.replace(",", "")
    turns = estimate_trial_s(known.workloads["pair"], where) * 4 * 63
    assert said.endswith(format_quantity(turns, "s"))
    with pytest.raises(PlanError, match="at least 3"):
        accept_nodes.plan_acceptance(known, "fleet", nodes=None, workload=None, campaign=None, now=NOW, rounds=2)


def test_a_fleet_at_half_speed_goes_back_by_a_published_figure_or_a_promise(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are all slow are alike: only a limit of the product's or of the contract's shows it."""
    alike = {"kind": "node_fault", "since": "2026-01", "on_nodes": list(range(8)), "worse": "100%", "probes": ["matmul_tflops"]}
    references = load(Path(__file__).parents[3] / "include" / "config").references
    slow, usual = (declared(place(nodes=8, drift=drift)) for drift in ((alike,), ()))
    assert accepted(slow, monkeypatch, home, "accept-1").fleet.verdict == "met"
    for campaign, known, verdict in (("accept-1", slow, "broken"), ("accept-2", usual, "met")):
        if campaign == "accept-2":
            accepted(known, monkeypatch, home, campaign)
        with open_archive() as archive:
            fleet = accept_nodes.acceptance_verdict(archive, campaign, "fleet", None, (place(nodes=8), references))
        assert (fleet.verdict, "matmul_tflops" in fleet.limited) == (verdict, True)
    promised = place(nodes=8, drift=()).model_copy(
        update={
            "sla": ServiceLevel.model_validate(
                {"speed_floors": {training_workload().name: "tokens_per_second >= 900000000tokens/s in steady"}}
            )
        }
    )
    found = accepted(declared(promised), monkeypatch, home, "accept-3").fleet
    assert len(found.returned) == 8 and all("sla.speed_floors" in " ".join(reasons_of(v)) for v in found.returned)
