"""Which finding is the return of which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts.thread import is_recurrence
from plumbline.results.finding import Member

KEY = FINDING.series_key
OLD = replace(FINDING, finding_id="old", series=(KEY,), members=(Member("step_time", "", 0.9, verdict="regressed", series_key=KEY),))
FACT = replace(OLD, kind="environment", subject="environment", members=(Member("gpu.driver", ""),), series=(KEY,))
DAY = replace(FACT, campaign_id=None, since="2026-11-20", series_key="", series=())


@pytest.mark.parametrize(
    ("old", "changes", "back"),
    [
        (OLD, {}, True),
        (OLD, {"series": (KEY, "another")}, True),
        (OLD, {"series": ("another",)}, False),
        (OLD, {"provider": "elsewhere"}, False),
        (OLD, {"members": (Member("step_time", "", -0.3, verdict="improved", series_key=KEY),)}, False),
        (FACT, {}, True),
        (FACT, {"members": (Member("gpu.driver", ""), Member("os.kernel", ""))}, True),
        (FACT, {"members": (Member("os.kernel", ""),)}, False),
        (DAY, {}, True),
        (replace(DAY, kind="price", subject="price spot", members=()), {}, True),
        (replace(DAY, kind="price", subject="price spot", members=()), {"subject": "price on-demand"}, False),
    ],
)
def test_the_same_drift_of_the_same_provider_is_a_return(old: Any, changes: dict[str, Any], back: bool) -> None:
    assert is_recurrence(replace(old, finding_id="new", **changes), old) is back


def test_no_finding_is_its_own_return() -> None:
    assert not is_recurrence(OLD, OLD)
