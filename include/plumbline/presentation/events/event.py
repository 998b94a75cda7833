"""An event, the window in which events are looked for, and what every kind of event says. A kind is one file of `kinds`, with one class under
`@register`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeVar, cast

from plumbline.archive import Archive, FindingView
from plumbline.archive.audit import PROGRAM_AUTHORS
from plumbline.archive.repository import Span
from plumbline.declarations import Declarations, Provider
from plumbline.metrics.units import Amount
from plumbline.results.operations import LogEntryView

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class StreamEvent:
    """One thing that happened. `event_id` is stable: the same event has the same one whenever it is read.

    `at`: when it happened; `updated`: when it last changed, such as the end of an outage. `what`: the word of its kind, such as `opened`. `text`: a
    sentence without its amount, date and author. `providers` and `workloads`: those that it concerns, none where it concerns all. `series`: keys
    of those that it is about, empty of a provider as a whole. `effective`: from when on it counts, if not from `at`. `campaign_id`: the one that showed it first. `usd`: USD a month more, negative if less; None: not known, or
    not for the reader. `link`: path of a page. `who`: a person; empty of what the program did.
    """

    event_id: str
    at: datetime
    kind: str
    what: str
    text: str
    link: str = ""
    providers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    campaign_id: str = ""
    usd: Amount | None = None
    who: str = ""
    why: str = ""
    simulated: bool = False
    updated: datetime | None = None
    effective: datetime | None = None


@dataclass(frozen=True)
class Looked:
    """What was watched for events of a kind. `last`: when it was last looked at, None if never; `note`: what limits it, empty if nothing does."""

    what: str
    last: datetime | None
    note: str = ""


@dataclass(frozen=True)
class EventWindow:
    """From `begin` to `end` (exclusive); `provider`: of this one alone. `limit`: the most events of a kind, the newest. `money`: whether the reader
    may see costs. `usd_of`: of a finding, as in `StreamEvent`. `on_charts`: only for what a trend shows."""

    archive: Archive
    declared: Declarations
    begin: datetime
    end: datetime
    provider: str = ""
    limit: int = 500
    money: bool = True
    usd_of: Callable[[FindingView], float | None] = field(default=lambda view: None)
    on_charts: bool = False
    _read: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, name: str, read: Callable[[], Answer]) -> Answer:
        """What `read` answers, read once for all kinds."""
        if name not in self._read:
            self._read[name] = read()
        return cast(Answer, self._read[name])

    @property
    def operations(self) -> list[LogEntryView]:
        """The entries of the operations log."""
        return self.once("operations", lambda: self.archive.operations(self.provider or None))

    @property
    def span(self) -> Span:
        return self.begin, self.end

    def holds(self, at: datetime | None) -> bool:
        """Whether the time is in the window."""
        return at is not None and self.begin <= at < self.end

    @property
    def providers(self) -> list[Provider]:
        """Declared ones, by name."""
        return [one for name, one in sorted(self.declared.providers.items()) if self.provider in ("", name)]

    def is_simulated(self, provider: str) -> bool:
        """Whether the provider is declared as a simulation."""
        declared = self.declared.providers.get(provider)
        return declared is not None and declared.simulated


class EventKind:
    """One kind of event. `order`: its place beside others. `one`, `several`: its noun. `money`: it is about money, and read for those alone who may
    see it. `counted_apart`: opened ones and resolved ones are counted apart. `on_charts`: what of it a trend shows; None: all."""

    id: ClassVar[str]
    order: ClassVar[int]
    one: ClassVar[str]
    several: ClassVar[str] = ""
    money: ClassVar[bool] = False
    counted_apart: ClassVar[bool] = False
    on_charts: ClassVar[tuple[str, ...] | None] = None

    def events(self, window: EventWindow) -> list[StreamEvent]:
        """Those of the window, at most its limit."""
        raise NotImplementedError

    def looked(self, window: EventWindow) -> Looked:
        raise NotImplementedError


KINDS: list[EventKind] = []
_Kind = TypeVar("_Kind", bound=type[EventKind])


def register(made: _Kind) -> _Kind:
    """Add a kind of event. ValueError if its id is taken."""
    if any(known.id == made.id for known in KINDS):
        raise ValueError(f"the kind of event {made.id} is registered twice; expected an id of its own")
    KINDS.append(made())
    return made


def person(who: str) -> str:
    """The author of an entry if it is a person, else empty."""
    return "" if who in PROGRAM_AUTHORS else who
