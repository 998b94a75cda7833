"""The stream as an Atom feed (RFC 4287)."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree

from plumbline.presentation.events.event import StreamEvent
from plumbline.presentation.events.stream import EventList, event_note

CONTENT_TYPE = "application/atom+xml; charset=utf-8"
_NAMESPACE = "http://www.w3.org/2005/Atom"
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not hold, also when they are escaped."""


def atom_feed(stream: EventList, site: str, own: str) -> bytes:
    """The feed in UTF-8. `site`: the address of the pages, without a slash at its end; `own`: the feed's own."""
    ElementTree.register_namespace("", _NAMESPACE)
    feed = ElementTree.Element(f"{{{_NAMESPACE}}}feed")
    page = f"{site}/since"
    of = f" on {stream.provider}" if stream.provider else ""
    _text(feed, "id", _urn(f"{page}?provider={stream.provider}"))
    _text(feed, "title", f"{'SIMULATED: ' if stream.rehearsal else ''}Plumbline: what happened{of}")
    _text(feed, "updated", _time(max((_updated(event) for event in stream.events), default=stream.since)))
    _link(feed, "self", own)
    _link(feed, "alternate", page)
    _text(_child(feed, "author"), "name", "Plumbline")
    for event in stream.events:
        _entry(feed, event, site)
    return bytes(ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True))


def _entry(feed: ElementTree.Element, event: StreamEvent, site: str) -> None:
    entry = _child(feed, "entry")
    # Of the event alone: the same under another address of the server.
    _text(entry, "id", _urn(f"plumbline:{event.event_id}"))
    _text(entry, "title", f"{'SIMULATED: ' if event.simulated else ''}{event.text}")
    _text(entry, "published", _time(event.at))
    _text(entry, "updated", _time(_updated(event)))
    _link(entry, "alternate", f"{site}{event.link or '/since'}")
    _child(entry, "category").set("term", _clean(event.kind))
    if event.who:
        _text(_child(entry, "author"), "name", event.who)
    _text(entry, "summary", ". ".join(filter(None, (f"{event.kind}, {event.what}", event_note(event)))))


def _updated(event: StreamEvent) -> datetime:
    return event.updated or event.at


def _urn(name: str) -> str:
    return f"urn:uuid:{uuid5(NAMESPACE_URL, name)}"


def _time(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _child(parent: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, f"{{{_NAMESPACE}}}{name}")


def _text(parent: ElementTree.Element, name: str, text: str) -> None:
    _child(parent, name).text = _clean(text)


def _link(parent: ElementTree.Element, relation: str, address: str) -> None:
    link = _child(parent, "link")
    link.set("rel", relation)
    link.set("href", _clean(address))
