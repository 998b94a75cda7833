"""One stream of what happened: each kind's events in time order, with who, why and what was watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, spread, world
from tests.unit.results.test_finding import NOTICED

from plumbline.archive import Archive, open_archive
from plumbline.archive.audit import DELIVERY_JUDGED
from plumbline.declarations import Declarations
from plumbline.presentation.events.atom import atom_feed
from plumbline.presentation.events.event import StreamEvent
from plumbline.presentation.events.stream import EventList, count_events, read_stream, since_moment
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.operations import LogEntry
from plumbline.results.stored import DecisionRecord
from plumbline.workflows.findings import finding_record

NOW = datetime.now(timezone.utc)
SINCE = NOW - timedelta(days=7)
ATOM = "{http://www.w3.org/2005/Atom}"
DRIFT = replace(NOTICED, provider=FAST, finding_id="aaa000", severity="info")


def watched(declared: Declarations) -> Declarations:
    """The same, with checks of the fast lab's uptime."""
    place = declared.providers[FAST]
    watch = type(place.watch).model_validate_json('{"uptime": {"every": "5min"}}')
    return replace(declared, providers={**declared.providers, FAST: place.model_copy(update={"watch": watch})})


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Archive, Declarations]]:
    """A week in which one thing of each kind happened to the fast lab, and a finding to the cheap one."""
    declared = world()
    with open_archive(f"sqlite:///{tmp_path_factory.mktemp('week') / 'archive.db'}") as archive:
        measure(archive, declared, {FAST: spread(0.09), CHEAP: spread(0.1)})
        archive.save_findings([finding_record(DRIFT), finding_record(replace(DRIFT, finding_id="bbb000", provider=CHEAP))])
        archive.continue_finding(finding_record(replace(DRIFT, severity="page")), "2026-11-22", "seen again")
        archive.continue_finding(finding_record(replace(DRIFT, severity="page")), "2026-11-23", "seen again")
        archive.set_finding_state("aaa000", "acknowledged", by="ada", why="I ask them")
        archive.set_finding_state("aaa000", "resolved", by="drift", why="back to normal")
        archive.accept_price(FAST, "on_demand", None, 3.0, date(2025, 2, 1), "a test", by="bo", why="they wrote")
        moved = {"workloads": ["gpt-test"], "instead_of": FAST, "why": "a price rose"}
        archive.save_decision(DecisionRecord("d1", "platform", "training", CHEAP, 0.9, moved))
        archive.add_audit(
            who="acceptance",
            what=DELIVERY_JUDGED,
            subject="accept-1",
            why="3 of 4 nodes accepted",
            detail={"provider": FAST, "verdict": "broken"},
        )
        archive.add_audit(who="drift", what="series_reviewed", subject="a", why="steady", detail={"campaign_id": "2025-11"})
        archive.log_entry(LogEntry(FAST, "incident", "no node answers", NOW - timedelta(hours=5), solved=NOW - timedelta(hours=3)), by="cy")
        archive.log_entry(LogEntry(FAST, "ticket", "who pays", NOW - timedelta(hours=4)), by="cy")
        archive.log_entry(LogEntry(FAST, "incident", "long ago", NOW - timedelta(days=30), solved=NOW - timedelta(days=29)), by="cy")
        at = lambda i: NOW - timedelta(minutes=5 * i)  # noqa: E731
        missed = {30, 31, 32, 33}
        archive.save_availability_checks([
            AvailabilityCheck(FAST, "uptime", at(i), "timeout" if i in missed else None, "no answer" if i in missed else "", 0.1, 0, False)
            for i in range(1, 60)
        ])  # fmt: skip
        yield archive, watched(declared)


def stream(week: tuple[Archive, Declarations], **changed: object) -> EventList:
    return read_stream(*week, SINCE, datetime.now(timezone.utc), **changed)  # type: ignore[arg-type]


def test_each_kind_says_what_happened_newest_first(week: tuple[Archive, Declarations]) -> None:
    found = stream(week).events
    assert [event.at for event in found] == sorted((event.at for event in found), reverse=True)
    assert len({event.event_id for event in found}) == len(found) == 12
    assert {(event.kind, event.what) for event in found} == {
        ("finding", "opened"), ("finding", "worsened"), ("finding", "resolved"), ("action", "acknowledged"), ("action", "ticket"), ("price", "accepted"),
        ("decision", "changed"), ("acceptance", "broken"), ("campaign", "ended"), ("outage", "ended"),
    }  # fmt: skip
    by = {(event.kind, event.what): event for event in found}
    assert by["finding", "worsened"].text.endswith("info became page"), "the second time it was as grave as before"
    taken, accepted = by["action", "acknowledged"], by["price", "accepted"]
    assert (taken.who, taken.why, taken.link) == ("ada", "I ask them", "/findings/aaa000")
    assert (accepted.who, accepted.providers) == ("bo", (FAST,)) and "3" in accepted.text and FAST in accepted.text
    assert by["finding", "resolved"].who == "", "the program is no person"
    assert by["decision", "changed"].providers == (CHEAP, FAST) and by["acceptance", "broken"].text.endswith("3 of 4 nodes accepted")
    assert by["campaign", "ended"].text.endswith("all 6 trials usable")
    outages = [event.text for event in found if event.kind == "outage"]
    assert any(text.startswith(f"{FAST} did not answer for 20") for text in outages), outages
    assert any("no node answers, 2" in text for text in outages) and not any("long ago" in text for text in outages)


def test_of_one_provider_there_is_what_concerns_it(week: tuple[Archive, Declarations]) -> None:
    found = stream(week, provider=CHEAP)
    assert {(event.kind, event.what) for event in found.events} == {("finding", "opened"), ("decision", "changed"), ("campaign", "ended")}
    assert len(stream(week, provider=FAST).events) == 11


def test_the_newest_are_shown_and_the_counts_have_the_words_of_the_kinds(week: tuple[Archive, Declarations]) -> None:
    whole, cut = stream(week), stream(week, most=3)
    assert (len(cut.events), cut.more, whole.more) == (3, True, False) and cut.events == whole.events[:3]
    assert re.match(r"2 findings opened, 1 finding resolved, 1 finding worsened, 1 price accepted, 2 outages, ", count_events(whole.events))
    assert count_events(()) == "" and sum(len(events) for _, events in whole.days) == 12


def test_nothing_happened_says_what_was_watched_and_when(week: tuple[Archive, Declarations], tmp_path: Path) -> None:
    quiet = read_stream(*week, NOW - timedelta(days=400), NOW - timedelta(days=399))
    assert quiet.events == () and {one.what for one in quiet.looked if one.last is None} >= {"deliveries", "readings of price sources"}
    assert any(one.what.startswith("checks between campaigns") and one.last and "1 of 2 providers" in one.note for one in quiet.looked)
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as empty:
        never = read_stream(empty, world(), SINCE, NOW)
    assert never.events == () and all(one.last is None and one.note for one in never.looked) and len(never.looked) == 7


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("", "2026-11-23T00:00"),
        ("Monday", "2026-11-23T00:00"),
        ("7d", "2026-11-19T10:30"),
        ("2026-11-02", "2026-11-02T00:00"),
        ("2026-11-02T08:00+02:00", "2026-11-02T06:00"),
    ],
)
def test_since_is_a_day_an_instant_a_time_back_or_monday(text: str, since: str) -> None:
    now = datetime(2026, 11, 26, 10, 30, tzinfo=timezone.utc)
    assert since_moment(text, now) == datetime.fromisoformat(f"{since}+00:00")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "7", "2099-01-01"])
def test_another_text_and_the_future_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a"):
        since_moment(text, NOW)


def test_the_feed_has_what_the_standard_asks_for_and_stable_ids(week: tuple[Archive, Declarations]) -> None:
    found = stream(week)
    feed, again = (ElementTree.fromstring(atom_feed(found, site, f"{site}/since.atom")) for site in ("https://a/p", "https://b/p"))
    for element in (feed, *feed.iter(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            assert len(element.findall(f"{ATOM}{name}")) == 1, name
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")]
    assert len(set(ids)) == len(ids) == len(found.events) and all(str(name).startswith("urn:uuid:") for name in ids)
    assert ids == [entry.findtext(f"{ATOM}id") for entry in again.iter(f"{ATOM}entry")], "whatever the address of the server"
    assert feed.findtext(f"{ATOM}author/{ATOM}name") == "Plumbline" and "ada" in {e.text for e in feed.iter(f"{ATOM}name")}
    assert {link.get("rel") for link in feed.findall(f"{ATOM}link")} == {"self", "alternate"}
    moments = [entry.findtext(f"{ATOM}updated") or "" for entry in feed.iter(f"{ATOM}entry")]
    assert all(datetime.fromisoformat(moment.replace("Z", "+00:00")).tzinfo for moment in moments)


def test_text_that_xml_cannot_hold_and_a_simulation_are_marked() -> None:
    event = StreamEvent("e/1", NOW, "action", "noted", "a \x00 <b> & c", who="x\x08y", simulated=True)
    feed = ElementTree.fromstring(atom_feed(EventList(SINCE, NOW, "", (event,), False, ()), "https://a", "https://a/since.atom"))
    assert feed.findtext(f"{ATOM}entry/{ATOM}title") == "SIMULATED: a \ufffd <b> & c"
    assert (feed.findtext(f"{ATOM}title") or "").startswith("SIMULATED")
