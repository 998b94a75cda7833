"""What stands beside a scorecard's metrics, as every surface shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.browser.sample import campaign
from tests.golden import Golden
from tests.unit.scorecards.made import CONDITIONS, launched, number, refused
from tests.unit.scorecards.places import place

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.scorecards.references import reference_shares
from plumbline.analysis.scorecards.scorecard import Scorecard, primary_of, scorecards
from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.references import References
from plumbline.metrics import Phase
from plumbline.presentation.card_tables import Cell, TableRow, card_tables
from plumbline.presentation.scorecard_rows import ScorecardRows, campaign_rows, scorecard_rows, share_sentence
from plumbline.results.limit import Limit

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


def lines(*rows: TableRow) -> str:
    """Each row with its name, and each cell with what it shows."""
    shown = [f"{row.name}: {' | '.join('; '.join(filter(None, (c.text, c.detail, c.reason, c.mark))) for c in row.cells)}" for row in rows]
    return "\n".join(shown)


def test_the_number_asked_first_stands_there_with_its_interval_and_trials(golden: Golden) -> None:
    primary = rows().primary
    assert primary is not None
    golden("presentation.primary_metric", lines(primary))
    assert [t[-2:] for t in primary.cells[0].trials] == ["r1", "r2", "r3"]


def test_friction_says_what_was_promised_and_what_is_not_known(golden: Golden) -> None:
    golden("presentation.friction", lines(*rows().friction))


def test_capacity_by_nodes_and_by_slot(golden: Golden) -> None:
    golden("presentation.capacity", lines(*rows().capacity))


def test_shares_are_sentences_and_refusals_name_both_sides(golden: Golden) -> None:
    found = rows()
    golden("presentation.shares", "\n".join(f"{line.provider}: {line.sentence}" for line in found.shares if line.exact))
    (apart,) = found.apart
    assert (apart.providers, apart.weight) == (("a", "b"), "refused")


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
        assert row(found.friction, "image pull").cells[0].reason
        assert {line.kind for line in found.shares} <= {"physical"}, "nobody publishes anything of this machine"
    own = [line.sentence for found in beside if found.kind == "training" for line in found.shares]
    assert own and all("probe" in sentence and "GFLOP/s" in sentence for sentence in own)


def test_the_highest_rate_stands_there_with_what_limited_it(sample: CampaignData) -> None:
    """Shown, it is beside the number; not shown, it is why there is none."""
    card = next(c for c in conclude(sample).cards if c.primary_metric is not None and c.primary is not None)
    assert card.primary is not None
    phase: Phase = card.primary.phase  # type: ignore[assignment]
    shown = replace(card, limits=(Limit.shown(phase, "cores", "98% of the trial's cores were busy"),))
    idle = Limit(phase=phase, limit="not_shown", seen="40% of the cores were busy", missing="40/s is not shown", decides="a larger model")
    unshown = replace(card, primary=None, limits=(idle,))

    def cell(of: Scorecard) -> Cell:
        (rows,) = scorecard_rows([of], References(), {}, {})
        assert rows.primary is not None
        return rows.primary.cells[0]

    assert cell(shown).detail.endswith("limit: the cores")
    assert cell(unshown).text == "–" and cell(unshown).reason == "40% of the cores were busy; 40/s is not shown: a larger model"
