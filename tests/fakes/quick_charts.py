"""A chart that was drawn already is not drawn again: tests write reports of the same few campaigns hundreds of times.

A chart is plain data, and the same data gives the same bytes; tests of that import the drawing functions themselves.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from plumbline.alerts import chart as alert_chart
from plumbline.presentation.charts import static
from plumbline.presentation.html import mail, report

_drawn: dict[bytes, Any] = {}


def install() -> None:
    """For all reports, mails and alerts that this process writes from now on."""
    report.svg = _once(static.svg)
    mail.png = alert_chart.png = _once(static.png)


def _once(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(*given: Any) -> Any:
        key = pickle.dumps((draw.__name__, given))
        if key not in _drawn:
            _drawn[key] = draw(*given)
        return _drawn[key]

    return drawn
