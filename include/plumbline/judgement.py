"""One verdict for whatever Plumbline judges: met, broken, or not shown; and the list of those who judge.

No evidence, no verdict. A judgement that is not shown says what was seen, what is missing and what would decide it. Surfaces take colour and
exit status from here, so that none can draw it as good news.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

Verdict = Literal["met", "broken", "not_shown"]
Tone = Literal["good", "warn", "bad"]
_TONES: dict[Verdict, Tone] = {"met": "good", "broken": "bad", "not_shown": "warn"}


@dataclass(frozen=True)
class Judgement:
    """`seen`: the evidence in words. `missing` and `decides`: what is missing and what would decide it, of a verdict that is not shown only."""

    verdict: Verdict
    seen: str
    missing: str = ""
    decides: str = ""

    def __post_init__(self) -> None:
        if not self.seen:
            raise ValueError("a judgement says what was seen")
        if (self.verdict == "not_shown") != bool(self.missing and self.decides):
            raise ValueError("a judgement that is not shown says what is missing and what would decide it; another has neither")

    @property
    def tone(self) -> Tone:
        """In which a surface draws it: never good without evidence."""
        return _TONES[self.verdict]

    @property
    def text(self) -> str:
        """What was seen and, where that does not decide, what is missing and what would; without a full stop."""
        return f"{self.seen}; {self.missing}: {self.decides}" if self.verdict == "not_shown" else self.seen


def met(seen: str) -> Judgement:
    return Judgement("met", seen)


def broken(seen: str) -> Judgement:
    return Judgement("broken", seen)


def not_shown(seen: str, missing: str, decides: str) -> Judgement:
    """`decides`: the evidence that would decide it, such as `381 launches without a failure`."""
    return Judgement("not_shown", seen, missing, decides)


def is_measured(value: float | None) -> bool:
    """Whether a figure that is positive by nature (a rate, a bandwidth) was measured: none, NaN, 0 and less are no measurement."""
    return value is not None and math.isfinite(value) and value > 0


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several that must all be met: broken if one is, met only if there are any and all are."""
    seen = set(verdicts)
    return "broken" if "broken" in seen else "met" if seen == {"met"} else "not_shown"


@runtime_checkable
class Judged(Protocol):
    """What a judge returns, where it is more than a judgement."""

    @property
    def judgement(self) -> Judgement: ...


_Judge = TypeVar("_Judge", bound=Callable[..., object])
JUDGES: dict[str, Callable[..., Any]] = {}
"""Who judges, by the name of what is judged. `tests/unit/test_judges.py` shows each of them nothing, something else and a half."""


def judges(what: str) -> Callable[[_Judge], _Judge]:
    """Register the function that judges `what`. It returns a Judgement, a Judged, or sequences of them."""

    def register(judge: _Judge) -> _Judge:
        if what in JUDGES:
            raise ValueError(f"{what} has a judge already")
        JUDGES[what] = judge
        return judge

    return register
