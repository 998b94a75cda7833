"""How long several nodes take, and how often there are none."""

from __future__ import annotations

from tests.unit.scorecards.made import launched, number, refused
from tests.unit.scorecards.places import local, place

from plumbline.analysis.scorecards.provisioning import capacity, lead_time_of
from plumbline.analysis.scorecards.scorecard import scorecards


def test_time_to_scale_by_number_of_nodes() -> None:
    trials = [launched(1, 60.0), launched(2, 70.0), launched(3, 200.0, nodes=4, workload="gang"), refused(4, nodes=4, workload="gang")]
    found = capacity(trials, place())
    assert [(s.nodes, s.time.value, s.time.n) for s in found.scale] == [(1, 65.0, 2), (4, 200.0, 1)]
    assert found.reason == ""


def test_the_nodes_of_gangs_one_after_the_other() -> None:
    ready = {1: (40.0, 60.0), 2: (90.0, 70.0), 4: (200.0, 180.0)}
    gangs = [
        launched(
            i, 200.0, nodes=4, metrics=tuple(number(f"gang_ready_time_{n}", times[i], "cold_start", n=n) for n, times in ready.items())
        )
        for i in range(2)
    ]
    found = capacity([*gangs, launched(3, 60.0), refused(4, nodes=4)], place())
    assert [(s.nodes, s.time.value, s.time.n) for s in found.gang] == [(1, 50.0, 2), (2, 80.0, 2), (4, 190.0, 2)]
    assert capacity([launched(1, 60.0)], place()).gang == ()


def test_shortage_by_slot_of_the_day() -> None:
    day = [launched(i, 60.0) for i in range(3)]
    evening = [launched(4, 60.0, slot="18:00"), refused(5, slot="18:00"), refused(6, "server_error", slot="18:00")]
    found = capacity([*day, *evening, refused(7, "quota_exceeded", slot="18:00")], place())
    assert [(s.slot, s.refused.successes, s.refused.n) for s in found.shortage] == [("02:00", 0, 3), ("18:00", 1, 3)]
    assert found.shortage[1].trials == ("2026-11.a.training.w.0200.r5",)
    assert (found.refused.successes, found.refused.n) == (1, 6), "more than was agreed is no want of capacity"


def test_what_it_cannot_say_it_says() -> None:
    assert "parallelism.nodes" in capacity([launched(1, 60.0)], place()).reason
    assert capacity([launched(1, 0.8)], local()).reason == local().launcher.not_scalable is not None
    unseen = [launched(1)]
    assert capacity(unseen, place()).reason == lead_time_of(unseen, place()).reason != ""
    nothing = capacity([launched(1, status="missing")], place())
    assert (nothing.reason, nothing.scale, nothing.refused.ratio) == ("nothing was launched", (), None)


def test_a_card_sees_the_launches_of_the_providers_other_workloads_of_its_kind() -> None:
    gang = launched(3, 200.0, nodes=4, workload="gang")
    elsewhere = launched(4, 900.0, nodes=8, provider="b")
    served = launched(5, 30.0, nodes=2, kind="inference", workload="chat")
    cards = scorecards([launched(1, 60.0), gang, elsewhere, served], providers={"a": place("a"), "b": place("b")})
    scale = {(c.provider, c.workload): [s.nodes for s in c.capacity.scale] for c in cards}
    assert scale == {("a", "w"): [1, 4], ("a", "gang"): [1, 4], ("b", "w"): [8], ("a", "chat"): [2]}
