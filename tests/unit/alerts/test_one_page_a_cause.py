"""A shared cause pages once, also where one of its findings was reported before it was known; what follows goes to that thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.fakes.kept_findings import keep
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts import deliver
from plumbline.alerts.channel import AlertChannel, Channels, Post
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Alerts, Route
from plumbline.findings.cause import as_grave_as_members, witnesses
from plumbline.results.finding import FLEET, CauseEvidence, Finding, Severity
from plumbline.workflows.alert import _findings_to_send, alert_of
from plumbline.workflows.causes import unsettled_witnesses

DRIVER = "driver.version"
PROVIDERS = ("aurora", "borealis")


def member(provider: str, severity: Severity = "page") -> Finding:
    key = f"training/gpt@1/h1/torch/{provider}/here/host"
    of = {"provider": provider, "series_key": key, "series": (key,), "standing": (key,)}
    return replace(FINDING, finding_id=provider, severity=severity, attributed_to=(DRIVER,), **of)


def cause(severity: Severity = "page") -> Finding:
    evidence = CauseEvidence((DRIVER,), ("driver 570.86.15",), "regressed", PROVIDERS, (), 2, 2, 2, 3, 0.01)
    series = tuple(member(name).series_key for name in PROVIDERS)
    title = "driver 570.86.15: 9 % slower in 2 of 2 trainings at 2 of 2 providers"
    about = {"subject": f"cause/{DRIVER}", "title": title, "series": series, "standing": series, "effect": 0.09}
    return replace(member(FLEET, severity), finding_id="cause", cause=evidence, **about)


class Pager(AlertChannel):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.posts: list[Post] = []

    def send(self, post: Post) -> str:
        self.posts.append(post)
        return post.message_id or f"message {len(self.posts)}"

    @property
    def pages(self) -> list[Post]:
        """What wakes a person: a first message or a reply of severity page, no change of a message."""
        return [post for post in self.posts if post.message.severity == "page" and post.name != "updated"]


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> Pager:
    made = Pager()
    monkeypatch.setattr(Channels, "get", lambda self, name: made)
    return made


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        yield opened


def send(archive: Archive) -> None:
    led = unsettled_witnesses(archive)
    cases = [alert_of(archive, None, view, led=led) for view in _findings_to_send(archive, led)]
    deliver(cases, archive, None, Alerts(routes=(Route(channels=("C0123456789",), owner="U0123456789"),)), now=datetime.now(timezone.utc))


def test_a_cause_that_is_known_first_is_the_only_page(archive: Archive, pager: Pager) -> None:
    for made in (cause(), *map(member, PROVIDERS)):
        keep(archive, made)
    send(archive)
    send(archive)
    assert [(post.thread_key, post.name) for post in pager.posts] == [("cause", "opened")] and len(pager.pages) == 1


def test_a_cause_goes_on_in_the_thread_of_the_finding_that_was_paged_before(archive: Archive, pager: Pager) -> None:
    keep(archive, member("aurora"))
    send(archive)
    keep(archive, cause())
    keep(archive, member("borealis"))
    send(archive)
    send(archive)
    assert [(post.thread_key, post.name, post.message_id) for post in pager.posts] == [
        ("aurora", "opened", ""),
        ("cause", "updated", "message 1"),
        ("cause", "cause", "message 1"),
    ]
    assert len(pager.pages) == 1 and "<@U0123456789>" not in str(pager.posts[-1].message.blocks)
    archive.set_finding_state("aurora", "resolved", by="ada", why="repaired")
    send(archive)
    assert len(pager.posts) == 3, "the message is the cause's now"
    archive.set_finding_state("cause", "resolved", by="ada", why="repaired")
    archive.set_finding_state("borealis", "resolved", by="ada", why="repaired")
    send(archive)
    assert "RESOLVED" in pager.posts[3].message.title and len(pager.pages) == 1


def test_a_cause_that_is_graver_than_what_was_reported_pages_in_that_thread(archive: Archive, pager: Pager) -> None:
    keep(archive, member("aurora", "warn"))
    send(archive)
    keep(archive, cause())
    send(archive)
    send(archive)
    assert [post.name for post in pager.posts] == ["opened", "updated", "escalated"] and len(pager.pages) == 1


def test_a_finding_of_another_cause_has_a_page_of_its_own(archive: Archive, pager: Pager) -> None:
    for made in (cause(), replace(member("aurora"), attributed_to=("image",))):
        keep(archive, made)
    send(archive)
    assert {post.thread_key for post in pager.pages} == {"cause", "aurora"}


@pytest.mark.parametrize(("verdict", "severity"), [("regressed", "page"), ("improved", "warn")])
def test_a_cause_is_as_grave_as_what_it_explains_so_that_only_it_pages(verdict: str, severity: Severity) -> None:
    pooled = cause("warn")
    assert pooled.cause is not None
    pooled = replace(pooled, cause=replace(pooled.cause, verdict=verdict))
    raised = as_grave_as_members(pooled, [member("aurora", "page"), replace(member("borealis", "page"), state="resolved")])
    assert raised.severity == severity
    assert ("aurora" in witnesses([raised, member("aurora", "page")])) is (severity == "page")
