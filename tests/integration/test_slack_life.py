"""A finding's life in Slack: opened, updated, escalated, resolved, come back; each call once, whatever is killed when."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from slack_sdk import WebClient
from tests.fakes.fake_slack import FakeSlack, Fault
from tests.fakes.kept_findings import keep
from tests.integration.test_slack_delivery import CHANNEL, Heard, finding

from plumbline.alerts import Alert, AlertContext, Delivery, Slack, deliver
from plumbline.archive import Archive, IncidentRecord, open_archive
from plumbline.declarations import Alerts, QuietHours, Route
from plumbline.declarations.alerts import Condition
from plumbline.results.finding import Finding

NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
OPEN = finding()
ACKNOWLEDGED = finding(state="acknowledged")
GRAVER = finding(state="acknowledged", severity="page", title="step_time +9.0 %")
RESOLVED = replace(GRAVER, state="resolved")
AGAIN = finding("b", campaign_id="2026-12")
OTHER = "C1111111111"
POST, UPDATE = "chat.postMessage", "chat.update"


@pytest.fixture
def server() -> Iterator[FakeSlack]:
    with FakeSlack(channels={CHANNEL, OTHER}) as fake:
        yield fake


@pytest.fixture
def slack(server: FakeSlack) -> Slack:
    return Slack(WebClient(token=server.token, base_url=server.url, retry_handlers=[], timeout=5), CHANNEL)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'archive.db'}"


@pytest.fixture
def archive(url: str) -> Iterator[Archive]:
    with open_archive(url) as opened:
        keep(opened, OPEN, AGAIN)
        yield opened


def case(step: Finding, **context: Any) -> Alert:
    returns = {"earlier": OPEN.finding_id} if step.finding_id == AGAIN.finding_id else {}
    return Alert(step, AlertContext(came_back="resolved 2026-11-30" if returns else "", **context), **returns)


def calls(server: FakeSlack) -> list[tuple[str, str, bool]]:
    """Each call: the method, which post it is, whether it is a reply."""
    made = [(call.method, call.payload) for call in server.calls]
    return [(method, str(payload["metadata"]["event_payload"]["post"]), "thread_ts" in payload) for method, payload in made]


LIFE = [OPEN, ACKNOWLEDGED, GRAVER, RESOLVED, AGAIN]
CALLS = [
    (POST, "opened", False),
    (UPDATE, "opened", False),
    (UPDATE, "opened", False),
    (POST, "escalated", True),
    (UPDATE, "opened", False),
    (UPDATE, "opened", False),
    (POST, "reopened", True),
]


def test_open_update_escalate_resolve_reopen(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    for step in LIFE:
        deliver([case(step)], archive, slack, now=NOON)
        deliver([case(step)], archive, slack, now=NOON)  # a retry changes nothing
    assert calls(server) == CALLS
    (message,) = server.shown()
    assert message["blocks"][0]["text"]["text"].startswith("WARN") and "Came back" in json.dumps(message["blocks"])
    escalated, reopened = server.thread(message["ts"])
    assert "Severity raised" in escalated["text"] and "2026-11-30" in reopened["text"]
    assert [call.payload.get("reply_broadcast") for call in server.calls if "thread_ts" in call.payload] == [True, True]


DIES = """
import json, os, signal, sys
from datetime import datetime
from slack_sdk import WebClient
from plumbline.alerts import Alert, AlertContext, Slack, deliver
from plumbline.archive import open_archive
from plumbline.results.finding import Finding

url, api, token, channel, now = sys.argv[1:]

def tell(what, step):
    with open_archive(url) as archive:
        class Killed:
            incidents = archive.incidents
            def save_incident(self, incident):
                if incident.posts.get(what, {}).get("ts"):
                    os.kill(os.getpid(), signal.SIGKILL)
                archive.save_incident(incident)
        case = Alert(Finding.of(step["finding"]), AlertContext(came_back=step["came_back"]), step["earlier"])
        deliver([case], Killed(), Slack(WebClient(token=token, base_url=api, retry_handlers=[]), channel), now=datetime.fromisoformat(now))

for line in sys.stdin:
    child = os.fork()  # each is a process of its own; the imports are paid for once
    if not child:
        tell(*json.loads(line))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def killed(url: str, server: FakeSlack, archive: Archive) -> Iterator[Callable[[Alert, str], None]]:
    """Tells a finding in a process of its own, which is killed between the post of this name and the note of it."""
    arguments = [url, server.url, server.token, CHANNEL, NOON.isoformat()]
    with subprocess.Popen([sys.executable, "-c", DIES, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as teller:
        assert teller.stdin is not None and teller.stdout is not None
        stdin, stdout = teller.stdin, teller.stdout

        def tell(step: Alert, what: str) -> None:
            asked = {"finding": step.finding.to_dict(), "came_back": step.context.came_back, "earlier": step.earlier}
            stdin.write(json.dumps([what, asked]) + "\n")
            stdin.flush()
            assert stdout.readline() == f"{-signal.SIGKILL}\n"

        yield tell


def test_killed_between_each_post_and_the_note_of_it(
    server: FakeSlack, slack: Slack, archive: Archive, killed: Callable[[Alert, str], None]
) -> None:
    for step, what in zip(LIFE, ("opened", None, "escalated", None, "reopened"), strict=True):
        if what is not None:
            killed(case(step), what)
        deliver([case(step)], archive, slack, now=NOON)
        deliver([case(step)], archive, slack, now=NOON)
    looked = [call.method for call in server.calls if call.method.startswith("conversations.")]
    assert looked == ["conversations.history", "conversations.replies", "conversations.replies"]
    server.calls = [call for call in server.calls if not call.method.startswith("conversations.")]
    assert calls(server) == CALLS
    assert len(server.shown()) == 1 and len(server.thread(server.shown()[0]["ts"])) == 2


def test_a_reply_that_slack_refuses_is_told_by_the_next_run(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([case(OPEN)], archive, slack, now=NOON)
    server.fail_next(Fault(), Fault(error="ratelimited"))
    assert deliver([case(GRAVER)], archive, slack, now=NOON).undelivered
    assert deliver([case(GRAVER)], archive, slack, now=NOON).escalated
    assert [m["text"].splitlines()[0] for m in server.thread(server.shown()[0]["ts"])] == ["Severity raised to page"]
    assert server.methods() == [POST, UPDATE, POST, POST]


def test_a_page_from_the_start_and_one_that_calmed_down_are_not_escalated(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    page = finding(severity="page")
    for step in (page, finding(), page):
        assert not deliver([case(step)], archive, slack, now=NOON).escalated
    assert server.methods() == [POST, UPDATE, UPDATE]


def reminded(archive: Archive, slack: Slack, step: Finding, days: float, **context: Any) -> Delivery:
    return deliver([case(step, **context)], archive, slack, now=NOON + timedelta(days=days))


def test_people_are_reminded_every_week_while_nobody_has_dealt_with_it(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    days = (0, 6.9, 7, 7.1, 13.9, 14.1)
    assert [bool(reminded(archive, slack, OPEN, d).reminded) for d in days] == [False, False, True, False, False, True]
    assert not reminded(archive, slack, ACKNOWLEDGED, 40).reminded
    assert not reminded(archive, slack, finding(severity="info"), 50).reminded
    said = server.thread(server.shown()[0]["ts"])
    assert [("reminder 1" in m["text"], "reminder 2" in m["text"]) for m in said] == [(True, False), (False, True)]
    assert not [call for call in server.calls if call.payload.get("reply_broadcast")]


def test_a_reminder_whose_answer_got_lost_is_not_repeated(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    reminded(archive, slack, OPEN, 0)
    server.fail_next(Fault(cut=True, after_work=True))
    assert reminded(archive, slack, OPEN, 7).undelivered
    assert reminded(archive, slack, OPEN, 7.1).reminded
    assert len(server.thread(server.shown()[0]["ts"])) == 1


def test_what_is_snoozed_is_shown_so_and_told_again_afterwards(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    until = NOON + timedelta(days=20)
    reminded(archive, slack, OPEN, 0)
    assert reminded(archive, slack, OPEN, 1, snoozed_until=until).updated
    assert f"{until:%Y-%m-%d %H:%M}" in json.dumps(server.shown()[0]["blocks"])
    assert not reminded(archive, slack, OPEN, 10, snoozed_until=until).reminded
    assert reminded(archive, slack, GRAVER, 11, snoozed_until=until).escalated, "it became graver: that was not known when it was snoozed"
    assert reminded(archive, slack, OPEN, 21).reminded


def test_a_finding_that_is_snoozed_before_it_was_told_waits(server: FakeSlack, slack: Slack, archive: Archive, heard: Heard) -> None:
    until = NOON + timedelta(days=1)
    held = deliver([case(OPEN, snoozed_until=until)], archive, slack, now=NOON, log=heard.logger)
    assert held.held == [OPEN.finding_id] and server.calls == [] and f"{until:%Y-%m-%d %H:%M}" in heard.text
    assert reminded(archive, slack, OPEN, 2).posted


@pytest.fixture
def heard() -> Heard:
    return Heard()


NIGHT = QuietHours(start="11:00", end="13:00", timezone="UTC")


def test_at_quiet_hours_warnings_wait_and_pages_and_updates_do_not(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    rules = Alerts(routes=(Route(quiet_hours=NIGHT),))
    page = replace(AGAIN, severity="page")
    done = deliver([case(OPEN), Alert(page)], archive, slack, rules, now=NOON)
    assert (done.held, done.posted) == ([OPEN.finding_id], [AGAIN.finding_id])
    later = deliver([case(OPEN), Alert(page)], archive, slack, rules, now=NOON + timedelta(hours=2))
    assert later.posted == [OPEN.finding_id]
    assert deliver([case(ACKNOWLEDGED)], archive, slack, rules, now=NOON).updated


def test_rules_say_where_and_whom(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    rules = Alerts(
        routes=(
            Route(when=Condition(severity=("page",)), channels=(OTHER,), owner="S0123456789"),
            Route(when=Condition(kind=("performance",)), owner="U0123456789"),
        )
    )
    deliver([case(OPEN, owner="U0123456789")], archive, slack, rules, now=NOON)
    assert server.shown(OTHER) == [] and "<@U0123456789>" in json.dumps(server.shown()[0]["blocks"])
    # As a page it belongs elsewhere too; the thread that stands is not left behind.
    done = deliver([case(GRAVER, owner="S0123456789")], archive, slack, rules, now=NOON)
    assert done.posted and done.escalated and "<!subteam^S0123456789>" in json.dumps(server.shown(OTHER)[0]["blocks"])
    assert "<!subteam^S0123456789>" in json.dumps(server.thread(server.shown()[0]["ts"])[0]["blocks"])
    deliver([case(RESOLVED)], archive, slack, rules, now=NOON)
    assert [m["blocks"][0]["text"]["text"].startswith("RESOLVED") for m in (*server.shown(), *server.shown(OTHER))] == [True, True]


def test_a_channel_that_refuses_does_not_hold_up_the_others(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.archived = {CHANNEL}
    both = Alerts(routes=(Route(channels=(CHANNEL, OTHER)),))
    done = deliver([case(OPEN), Alert(AGAIN)], archive, slack, both, now=NOON)
    assert done.undelivered == done.posted == [OPEN.finding_id, AGAIN.finding_id] and len(server.shown(OTHER)) == 2
    assert len(server.calls) == 3, "the second finding is not tried where the first was refused"
    server.archived = set()
    again = deliver([case(OPEN), Alert(AGAIN)], archive, slack, both, now=NOON)
    assert again.posted == again.unchanged == [OPEN.finding_id, AGAIN.finding_id] and len(server.shown()) == 2


def test_what_could_not_be_told_goes_where_the_rules_say_now(server: FakeSlack, slack: Slack, archive: Archive, heard: Heard) -> None:
    server.archived = {CHANNEL}
    assert deliver([case(OPEN)], archive, slack, now=NOON).undelivered
    elsewhere = Alerts(routes=(Route(channels=(OTHER,)),))
    done = deliver([case(OPEN)], archive, slack, elsewhere, now=NOON, log=heard.logger)
    assert done.posted and not done.undelivered and f"goes to {OTHER} instead of {CHANNEL}" in heard.text
    assert {i.channel: i.state for i in archive.incidents(OPEN.finding_id)} == {CHANNEL: "moved", OTHER: "open"}
    assert deliver([case(RESOLVED)], archive, slack, elsewhere, now=NOON).updated and server.shown() == []


def test_a_message_in_a_channel_that_is_gone_is_given_up_once_the_rules_name_another(
    server: FakeSlack, slack: Slack, archive: Archive
) -> None:
    deliver([case(OPEN)], archive, slack, now=NOON)
    server.archived = {CHANNEL}
    elsewhere = Alerts(routes=(Route(channels=(OTHER,)),))
    assert deliver([case(ACKNOWLEDGED)], archive, slack, now=NOON).undelivered, "it may be mended: the rules still name it"
    assert deliver([case(ACKNOWLEDGED)], archive, slack, elsewhere, now=NOON).posted
    before = len(server.calls)
    assert deliver([case(replace(ACKNOWLEDGED, state="resolved"))], archive, slack, elsewhere, now=NOON).updated
    assert len(server.calls) == before + 1
    assert {i.channel: i.state for i in archive.incidents(OPEN.finding_id)} == {CHANNEL: "moved", OTHER: "resolved"}


def test_a_message_that_stands_is_brought_up_to_date_also_where_the_rules_lead_no_longer(
    server: FakeSlack, slack: Slack, archive: Archive
) -> None:
    deliver([case(OPEN)], archive, slack, now=NOON)
    server.fail_next(Fault(error="ratelimited"))
    assert deliver([case(ACKNOWLEDGED)], archive, slack, now=NOON).undelivered
    deliver([case(ACKNOWLEDGED)], archive, slack, Alerts(routes=(Route(channels=(OTHER,)),)), now=NOON)
    assert [m["blocks"][0]["text"]["text"].startswith("WARN (ack") for m in (*server.shown(), *server.shown(OTHER))] == [True, True]


def test_what_was_over_before_slack_took_it_wakes_nobody(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    rules = Alerts(routes=(Route(quiet_hours=NIGHT),))
    server.fail_next(Fault(error="ratelimited"))
    assert deliver([case(OPEN)], archive, slack, rules, now=NOON - timedelta(hours=2)).undelivered
    over = replace(OPEN, state="resolved")
    assert deliver([case(over)], archive, slack, rules, now=NOON).held and not server.shown()
    assert deliver([case(over)], archive, slack, rules, now=NOON + timedelta(hours=2)).posted


def test_a_reminder_of_a_message_that_somebody_deleted_is_a_new_message(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    reminded(archive, slack, OPEN, 0)
    server.messages.clear()
    assert reminded(archive, slack, OPEN, 7).posted and len(server.shown()) == 1
    assert reminded(archive, slack, OPEN, 13).unchanged and reminded(archive, slack, OPEN, 14).reminded


@pytest.mark.parametrize(("error", "tried"), [("not_in_channel", 2), ("some_new_word", 2), ("token_revoked", 1), ("ratelimited", 1)])
def test_only_what_concerns_all_of_slack_ends_the_round(error: str, tried: int, server: FakeSlack, slack: Slack, archive: Archive) -> None:
    server.fail_next(Fault(error=error))
    both = Alerts(routes=(Route(channels=(CHANNEL, OTHER)),))
    assert deliver([case(OPEN)], archive, slack, both, now=NOON).undelivered
    assert len(server.calls) == tried


def test_one_that_comes_back_after_its_thread_was_deleted_is_told_anew(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    for step in (OPEN, RESOLVED):
        deliver([case(step)], archive, slack, now=NOON)
    server.messages.clear()
    done = deliver([case(AGAIN)], archive, slack, now=NOON)
    assert done.posted and not done.reopened and "Came back" in json.dumps(server.shown()[0]["blocks"])


def test_a_return_that_could_not_be_told_at_once_waits_for_the_end_of_quiet_hours(
    server: FakeSlack, slack: Slack, archive: Archive
) -> None:
    rules = Alerts(routes=(Route(quiet_hours=NIGHT),))
    early, late = NOON - timedelta(hours=2), NOON + timedelta(hours=2)
    for step in (OPEN, RESOLVED):
        deliver([case(step)], archive, slack, rules, now=early)
    server.fail_next(Fault(error="ratelimited"))
    assert deliver([case(AGAIN)], archive, slack, rules, now=early).undelivered
    quiet = deliver([case(AGAIN)], archive, slack, rules, now=NOON)
    assert quiet.updated and not quiet.reopened
    assert deliver([case(AGAIN)], archive, slack, rules, now=late).reopened


def test_a_thread_of_another_archive_is_not_taken_for_a_return(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([case(OPEN)], archive, slack, now=NOON)
    (known,) = archive.incidents()
    archive.save_incident(IncidentRecord(known.finding_id, known.channel, known.ts, known.state, known.message_hash))
    assert deliver([case(OPEN)], archive, slack, now=NOON).unchanged and server.methods() == [POST]
    assert not deliver([case(GRAVER)], archive, slack, now=NOON).reopened


def test_the_notification_cannot_mention_everybody_either(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([case(replace(OPEN, explanation="driver <!channel> & co " + "&" * 5000))], archive, slack, now=NOON)
    assert "<!channel>" not in server.shown()[0]["text"] and "&lt;!channel&gt; &amp; co" in server.shown()[0]["text"]


def test_the_end_of_a_finding_is_not_written_over_its_return(server: FakeSlack, slack: Slack, archive: Archive) -> None:
    deliver([case(OPEN)], archive, slack, now=NOON)
    server.fail_next(Fault(error="ratelimited"))
    deliver([case(RESOLVED)], archive, slack, now=NOON)
    assert deliver([case(AGAIN)], archive, slack, now=NOON).reopened
    before = len(server.calls)
    assert deliver([case(RESOLVED), case(AGAIN)], archive, slack, now=NOON).unchanged == [OPEN.finding_id, AGAIN.finding_id]
    assert len(server.calls) == before and server.shown()[0]["blocks"][0]["text"]["text"].startswith("WARN")
    assert archive.incidents(OPEN.finding_id)[0].state == "resolved"
