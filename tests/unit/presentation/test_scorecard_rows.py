"""What stands beside a scorecard's metrics, as every surface shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.browser.sample import campaign
from tests.unit.scorecards.made import CONDITIONS, launched, number, refused
from tests.unit.scorecards.places import place

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import primary_of, scorecards
from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.presentation.scorecard_rows import ScorecardRows, TableRow, campaign_rows, card_tables, scorecard_rows, share_sentence

DECLARED = load(REPOSITORY / "include" / "config")
LLAMA = DECLARED.workloads["reference-llama31-8b"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


def row(rows: tuple[TableRow, ...], name: str) -> TableRow:
    return next(r for r in rows if r.name == name)


def rows() -> ScorecardRows:
    """Two providers of one workload: a with a promise, steps and a refusal, b without any of them and simulated."""
    speeds = {"a": (7000.0, 7157.0, 7200.0), "b": (5000.0,)}
    trials = [
        launched(
            i,
            60.0 + i,
            provider=name,
            workload=LLAMA.name,
            metrics=(number("tokens_per_second_per_device", speed),),
            conditions=CONDITIONS if name == "a" else replace(CONDITIONS, source="simulated"),
        )
        for name, several in speeds.items()
        for i, speed in enumerate(several, 1)
    ]
    trials.append(refused(9, workload=LLAMA.name, slot="18:00"))
    promise = {"launch_success": "99%", "provisioning_lead_time": "61.5s"}
    providers = {"a": place("a", sla=promise, manual_steps=["ask for quota", "sign"]), "b": place("b", manual_steps=[])}
    cards = scorecards(trials, providers=providers, primaries={LLAMA.name: primary_of(LLAMA)})
    (found,) = scorecard_rows(cards, DECLARED.references, providers, {LLAMA.name: LLAMA})
    return found


def test_the_number_asked_first_stands_there_with_its_interval_and_trials() -> None:
    primary = rows().primary
    assert primary is not None and primary.name == "tokens per second per device"
    assert [c.text for c in primary.cells] == ["7,157 tokens/s", "5,000 tokens/s"]
    assert [c.detail for c in primary.cells] == ["7,000 … 7,200 (75 %), n 3", "n 1, no interval"]
    assert [t[-2:] for t in primary.cells[0].trials] == ["r1", "r2", "r3"]


def test_friction_says_what_was_promised_and_what_is_not_known() -> None:
    friction = rows().friction
    launch, lead = row(friction, "launch success").cells, row(friction, "lead time").cells
    assert (launch[0].text, launch[0].detail) == ("75 %", "3 of 4 (30 % … 95 %); promised 99.0 %: unproven, needs 381 flawless launches")
    assert (lead[0].mark, lead[0].detail) == ("bad", "61.0 … 63.0 (75 %), n 3; promised 61.5 s: missed (1 of 3 within it)")
    assert (lead[1].mark, lead[1].text) == ("", "61.0 s")
    pods = row(friction, "pod scheduling").cells[0]
    assert (pods.text, pods.reason) == ("–", "the simulation makes up no pods")
    steps = row(friction, "manual steps").cells
    assert [(c.text, c.detail) for c in steps] == [("2", "ask for quota; sign"), ("none", "")]


def test_capacity_by_nodes_and_by_slot() -> None:
    capacity = rows().capacity
    assert row(capacity, "time to 1 node").cells[0].text == "62.0 s"
    evening = row(capacity, "refused at 18:00 UTC").cells
    assert (evening[0].text, evening[0].mark, evening[1].reason) == ("100 %", "bad", "no launches in this slot")
    assert row(capacity, "refused").cells[0].detail == "1 of 4 (5 % … 70 %)"
    assert "only launches of 1 node" in row(capacity, "unknown").cells[0].reason


def test_shares_are_sentences_and_refusals_name_both_sides() -> None:
    found = rows()
    assert [(line.provider, line.sentence) for line in found.shares if line.exact] == [
        ("a", "67 % (66 … 67 %) of what NVIDIA publishes for this shape (10,682 tokens/s per GPU, DGX Cloud recipes, 2025)"),
        ("b", "SIMULATED: 47 % of what NVIDIA publishes for this shape (10,682 tokens/s per GPU, DGX Cloud recipes, 2025)"),
    ]
    (apart,) = found.apart
    assert (apart.providers, apart.weight) == (("a", "b"), "refused")
    assert apart.reason == "measured on a; simulated on b: the two never mix"


def test_a_near_match_says_what_differs_and_a_limit_says_what_of() -> None:
    near = DECLARED.workloads["pretrain-8b-8gpu"]
    trial = launched(1, metrics=(number("tokens_per_second_per_device", 8266.0), number("memory_bandwidth", 2.9e12)))
    (card,) = scorecards([trial])
    first, second = reference_shares(card, DECLARED.references, place(), near)
    sentence = share_sentence(first)
    for part in (
        "no share",
        "6,667 tokens/s per GPU",
        "2024",
        "8.03 billion parameters, here 7.24",
        "8192 tokens, here 4096",
        ": 8,266 tokens/s",
    ):
        assert part in sentence
    limit = share_sentence(second)
    assert limit.startswith("87 % ") and "3.350 TB/s" in limit and "H100" in limit and "2022" in limit


def test_a_campaigns_rows_stand_beside_its_tables(sample: CampaignData) -> None:
    cards = conclude(sample).cards
    beside = campaign_rows(sample, cards)
    assert [(r.anchor, r.providers) for r in beside] == [(t.anchor, tuple(c.provider for c in t.cards)) for t in card_tables(cards)]
    for found in beside:
        assert found.primary is not None
        assert row(found.friction, "launch success").cells[0].text.endswith(" %")
        assert row(found.friction, "image pull").cells[0].reason == "a process on this machine is started: there is no pod"
        assert {line.kind for line in found.shares} <= {"physical"}, "nobody publishes anything of this machine"
    own = [line.sentence for found in beside if found.kind == "training" for line in found.shares]
    assert own and all("the machine's own probe of matrix products" in sentence for sentence in own)
