"""What a campaign is for: the month's rerun, one on demand, an acceptance of nodes, or results of others. Only this file says which one it is."""

from __future__ import annotations

import re
from typing import Literal

Purpose = Literal["monthly", "on_demand", "acceptance", "imported"]
ACCEPTANCE_REASON = "acceptance of "
"""How the reason of an acceptance begins. Archives of schema 0014 know an acceptance by it alone; later ones store the purpose."""
_MONTHLY = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def purpose_of(campaign_id: str, placement: str) -> Purpose:
    """As it was planned: by the campaign's name and where its trials run, never by its reason, which is free text."""
    return "acceptance" if placement == "each_node" else "monthly" if is_monthly(campaign_id) else "on_demand"


def purpose_by_reason(campaign_id: str, reason: str) -> Purpose:
    """Of a campaign of schema 0014, whose row has no more than both."""
    return purpose_of(campaign_id, "each_node" if reason.startswith(ACCEPTANCE_REASON) else "any")


def is_monthly(campaign_id: str) -> bool:
    """Whether it is called by a month, such as 2026-11: every declared series takes part in it."""
    return _MONTHLY.fullmatch(campaign_id) is not None
