"""What a campaign is for: by its name and where its trials run; only rows of schema 0014 are read by their reason."""

from __future__ import annotations

import pytest

from plumbline.declarations.purposes import is_monthly, purpose_by_reason, purpose_of


@pytest.mark.parametrize(
    ("name", "placement", "purpose"),
    [
        ("2026-11", "any", "monthly"),
        ("od-20261120-234200", "any", "on_demand"),
        ("accept-20261120-100000", "any", "on_demand"),
        ("accept-20261120-100000", "each_node", "acceptance"),
        ("od-20261120-234200", "fresh_node", "on_demand"),
    ],
)
def test_a_purpose_comes_from_the_name_and_the_placement(name: str, placement: str, purpose: str) -> None:
    assert purpose_of(name, placement) == purpose


@pytest.mark.parametrize(
    ("name", "reason", "purpose"),
    [
        ("2026-11", "monthly rerun", "monthly"),
        ("a", "acceptance of nova", "acceptance"),
        ("a", "after the acceptance of nova", "on_demand"),
    ],
)
def test_an_older_row_is_read_by_its_reason(name: str, reason: str, purpose: str) -> None:
    assert purpose_by_reason(name, reason) == purpose


@pytest.mark.parametrize(("name", "monthly"), [("2026-11", True), ("2026-13", False), ("test-01", False), ("2026-11-02", False)])
def test_only_a_month_names_a_monthly_campaign(name: str, monthly: bool) -> None:
    assert is_monthly(name) is monthly
