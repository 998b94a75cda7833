"""Environment changes over a fleet: who has a value since when, and who does not."""

from __future__ import annotations

from datetime import datetime, timezone

from plumbline.analysis.drift.environment import FactReading, fact_changes


def readings(**by_provider: str) -> list[FactReading]:
    """The driver of each provider, one letter a month."""
    return [
        FactReading(name, f"2026-{month:02d}", datetime(2026, month, 1, tzinfo=timezone.utc), "driver.version", value)
        for name, values in by_provider.items()
        for month, value in enumerate(values, 1)
    ]


def test_a_change_names_who_has_it_since_when_and_who_is_on_another() -> None:
    (found,) = fact_changes(readings(a="oon", b="ooo", c="onn"))
    assert (found.value, found.have, found.known, found.others) == ("n", ("a", "c"), 3, (("b", "o"),))
    assert [(a.provider, a.before, a.campaign, a.current) for a in found.adoptions] == [
        ("c", "o", "2026-02", True),
        ("a", "o", "2026-03", True),
    ]


def test_a_value_that_a_provider_left_again_is_shown_only_where_another_has_it() -> None:
    back, forth = fact_changes(readings(a="ono", b="onn"))
    assert (back.value, [(a.provider, a.current) for a in back.adoptions]) == ("o", [("a", True)])
    assert (forth.value, [(a.provider, a.current) for a in forth.adoptions]) == ("n", [("a", False), ("b", True)])


def test_a_difference_that_never_changed_is_no_change() -> None:
    assert fact_changes(readings(a="ooo", b="nnn")) == ()


def test_nodes_with_different_values_in_one_campaign_are_no_change_each_month() -> None:
    mixed = readings(a="ooo") + [FactReading("a", r.campaign, r.at, r.fact, "n") for r in readings(a="ooo")[1:]]
    (found,) = fact_changes([*mixed, *readings(b="ooo")])
    assert (found.value, found.have, found.others) == ("n", ("a",), (("b", "o"),))
    assert [(a.before, a.campaign, a.current) for a in found.adoptions] == [("o", "2026-02", True)]
