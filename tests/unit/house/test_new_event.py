"""A kind of event is one file: a toy dropped into the folder is in the stream, in what was watched, and in the counts."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path

import pytest
from tests.fakes.labs import world

from plumbline.archive import open_archive
from plumbline.declarations import Declarations
from plumbline.presentation.events import event, kinds
from plumbline.presentation.events.stream import count_events, read_stream

TOY = '''
"""Birthdays of providers."""

from __future__ import annotations

from plumbline.presentation.events.event import StreamEvent, EventKind, Looked, EventWindow, register


@register
class Birthday(EventKind):
    id = "birthday"
    order = 99
    one = "birthday"

    def events(self, window: EventWindow) -> list[StreamEvent]:
        return [StreamEvent("birthday/lab", window.begin, self.id, "had", "lab is a year old")]

    def looked(self, window: EventWindow) -> Looked:
        return Looked("the calendar", window.end)
'''


def test_it_is_read_watched_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "birthday.py").write_text(TOY)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    known = list(event.KINDS)
    now = datetime.now(timezone.utc)
    try:
        import_module(f"{kinds.__name__}.birthday")
        with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
            stream = read_stream(archive, Declarations({}, {}, {}, world().thresholds), now - timedelta(days=1), now)
        assert [one.text for one in stream.events] == ["lab is a year old"] and count_events(stream.events) == "1 birthday"
        assert [one.what for one in stream.looked][-1] == "the calendar"
        with pytest.raises(ValueError, match="registered twice"):
            event.register(type(event.KINDS[-1]))
    finally:
        event.KINDS[:] = known
        sys.modules.pop(f"{kinds.__name__}.birthday", None)


def test_every_kind_has_its_own_name_place_and_noun() -> None:
    assert len({kind.id for kind in event.KINDS}) == len({kind.order for kind in event.KINDS}) == len(event.KINDS) >= 7
    assert all(kind.one for kind in event.KINDS)
