"""Types of findings: each is one file, every surface knows it, and every action that it offers ends well."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.data.finding_examples import finding_examples
from tests.fakes.kept_findings import keep
from tests.fakes.simulated_campaigns import config, months, run
from tests.source_trees import source_tree
from tests.unit.cli.test_examples import LEAVES, _command

from plumbline.alerts import render
from plumbline.alerts.digest import render_digest
from plumbline.alerts.message import render_details
from plumbline.answers.campaign_history import finding_row
from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.ledger import ledger_of
from plumbline.archive import Archive, open_archive
from plumbline.dashboard.pages.finding_actions import _label
from plumbline.declarations import Alerts, load
from plumbline.declarations.installation import override_home
from plumbline.findings.headline import headline
from plumbline.findings.types import base, stored_type, type_of
from plumbline.presentation.finding_page import finding_page
from plumbline.presentation.findings_inbox import group_findings
from plumbline.results.finding import Finding
from plumbline.results.price_reading import Reading
from plumbline.workflows.alert import alert_of, build_digest
from plumbline.workflows.finding_action import ActionRequest, apply_action, possible_actions

ROOM = Path(base.__file__).parents[2]
NOW = datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two months of a simulated provider, with a price that its source reads."""
    folder = tmp_path_factory.mktemp("types")
    readings = [Reading("sim", "on_demand", None, "test", "1", NOW - timedelta(days=n), 0.06, "USD", "instance_hour", 2) for n in (2, 1, 0)]
    with override_home(folder, config(folder)), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_CONFIG", str(folder / "config"))
        run(folder / "config", months(2))
        with open_archive() as archive:
            archive.record_readings(readings)
    return folder


@pytest.fixture
def archive(measured: Path, tmp_path: Path) -> Iterator[Archive]:
    home = tmp_path / "home"
    shutil.copytree(measured, home)
    with override_home(home, home / "config"), open_archive() as opened:
        yield opened


def examples(archive: Archive) -> dict[str, Finding]:
    first, newest = sorted(c.campaign_id for c in archive.campaigns())
    key = next(t.series_key for t in archive.trials(newest) if t.series_key.startswith("training/"))
    return finding_examples(key, newest, first)


def test_every_type_has_an_example_that_is_of_it_alone(archive: Archive) -> None:
    found = {name: type_of(finding) for name, finding in examples(archive).items()}
    assert {type(one) for one in found.values()} == {type(one) for one in base.TYPES}
    for finding in examples(archive).values():
        assert sum(known.owns(finding.kind, finding.subject) for known in base.TYPES if not known.usual or known.has(finding)) <= 1


def test_a_type_is_one_file_of_its_name() -> None:
    files = {path.stem for path in Path(base.__file__).parent.glob("*.py")} - {"__init__", "base"}
    assert files == {type(one).__module__.rpartition(".")[2] for one in base.TYPES} and len(files) == len(base.TYPES)


def test_the_page_lists_every_type_with_its_kinds_and_what_accepting_means() -> None:
    page = (Path(__file__).parents[3] / "docs" / "read-a-finding.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| [a-z_, ]+ \| `[a-z_]+` \|", line)]
    listed = {row[1].strip("`"): (set(row[0].split(", ")), row[3] != "–") for row in rows}
    assert listed.keys() == {one.id for one in base.TYPES}
    for one in base.TYPES:
        kinds, accepted = listed[one.id]
        assert kinds <= set(one.kinds) and accepted == (one.accepting is not None), one.id


def test_every_action_that_a_type_offers_ends_well(archive: Archive) -> None:
    declared = load()
    tried = 0
    for name, finding in examples(archive).items():
        keep(archive, finding)
        view = archive.finding(finding.finding_id)
        shown = finding_page(archive, declared, finding.finding_id, NOW).commands
        verbs = {words[2] for _, command in shown if (words := command.split())[:2] == ["plumbline", "findings"]}
        assert verbs - {"claim"} == set(possible_actions(declared, view)) - {"rerun"}, (name, verbs)
        for action in possible_actions(declared, view):
            again = replace(finding, finding_id=f"{finding.finding_id[:6]}{tried:06x}")
            keep(archive, again)
            label = _label(action, archive.finding(again.finding_id), declared)
            request = ActionRequest(again.finding_id, action, "tried by a test", NOW + timedelta(days=1) if action == "snooze" else None)
            apply_action(archive, declared, request, "tester", from_page=True)
            after = archive.finding(again.finding_id)
            expected = {"accept": "accepted", "resolve": "resolved", "acknowledge": "acknowledged", "reject": "acknowledged"}
            expected |= {"claimed": "acknowledged", "credited": "resolved", "refused": "resolved"}
            assert after.state == expected.get(action, "open"), (name, action)
            assert label and (action != "accept" or label == type_of(finding).accept_label), (name, label)
            tried += 1
    assert tried > 60


def test_every_surface_says_what_a_type_is(archive: Archive) -> None:
    declared = load()
    for name, finding in examples(archive).items():
        keep(archive, finding)
        view, of = archive.finding(finding.finding_id), type_of(finding)
        row, alert = finding_row(view), alert_of(archive, declared, view)
        message = render(alert.finding, alert.context)
        assert row.type == of.id and row.headline == headline(finding) and row.headline in message.text, name
        assert finding_page(archive, declared, finding.finding_id, NOW).words.startswith(headline(finding).split(",")[0]), name
        assert all(command in message.text for command, _ in of.steps(finding)), name
        assert render_details(alert.finding, alert.context).blocks and of.word("", finding.effect) and of.advice, name


MORE, LESS = r"\b(more|lost|costs?|raised)\b", r"\b(less|saves?|saved|saving)\b"


def test_every_type_as_it_is_seen(archive: Archive) -> None:
    """What, how much or why not, since when, until when, one command, and buttons that the command line accepts; on page, message, inbox, digest."""
    declared = replace(load(), alerts=Alerts.model_validate({"volumes": ({"provider": "*", "time_per_month": "730h"},)}))
    found = examples(archive)
    for finding in found.values():
        keep(archive, finding)
    views = archive.findings(("open",))
    entries = costed_findings(archive, declared, views)
    ledger = ledger_of(entries.values())
    costs = {name: entry.cost for name, entry in entries.items()}
    inbox = {item.view.finding_id: item for group in group_findings(views, costs, ledger) for item in group.items}
    digest = build_digest(archive, declared, f"{NOW:%Y-%m}", NOW, simulated=False)
    lines = render_digest(digest).text
    for name, finding in found.items():
        page, alert = (
            finding_page(archive, declared, finding.finding_id, NOW),
            alert_of(archive, declared, archive.finding(finding.finding_id)),
        )
        message = render(alert.finding, alert.context)
        words, facts = page.words, dict(message.fields)
        assert inbox[finding.finding_id].words == words and message.title.endswith(words), (name, "one headline")
        assert digest.ledger.change_of(finding.finding_id) == ledger.change_of(finding.finding_id), name
        assert len(words) <= 250 and "_" not in words.replace(finding.subject, "").replace("provider_watch", ""), (name, words)
        assert {"Since", "Since campaign", "Last in campaign"} & facts.keys(), (name, "since when")
        if type_of(finding).costs and finding.effect is not None:
            assert page.usd is not None or page.cost or page.counted, (name, "USD, or why not")
        if finding.credit is not None or finding.ending is not None:
            until = (finding.credit or finding.ending).until  # type: ignore[union-attr]
            assert until in page.counted and (until in facts.values() or until in words), (name, "its deadline")
        texts = [words, page.cost, page.counted, *message.text.splitlines(), *lines.splitlines()]
        clauses = [c for text in texts if "USD" in text for c in re.split(r"[.;:,](?=\s|$)", text) if "USD" in c]
        assert not [c for c in clauses if re.search(MORE, c) and re.search(LESS, c)], name
        looks = [
            command
            for command, _ in type_of(finding).steps(finding)
            if not re.match(r"plumbline findings (show|accept|resolve|ack)", command)
        ]
        assert looks, (name, "a command that shows its evidence")
        for command in (*looks, *(command for _, command in page.commands)):
            check_command(command.replace("--whose …", "--whose us").replace("…", "2026-11-02T10:00Z" if " log " in command else "because"))


def check_command(line: str) -> None:
    """Raises for what the command line refuses."""
    path, arguments = _command(shlex.split(line)[1:])
    assert path, line
    with pytest.MonkeyPatch.context() as patch:
        for each in LEAVES[path].params:  # which look ids up in the archive
            patch.setattr(each, "callback", None)
        LEAVES[path].make_context(path, arguments)


def test_a_command_that_does_not_exist_is_refused() -> None:
    for line in ("plumbline findings claimed", "plumbline budget --fast", "plumbline nonsense"):
        with pytest.raises((AssertionError, typer.BadParameter.__mro__[1])):
            check_command(line)


@pytest.mark.parametrize(
    ("name", "word", "accepts"),
    [
        ("price", "price rise", "Accept the price"),
        ("held_price", "unconfirmed price", "Accept the price"),
        ("commitment", "reservation that ends", ""),
        ("invoice", "difference on an invoice", ""),
        ("first_choice", "price rise", "Accept the first choice"),
        ("uptime_outage", "outage", ""),
        ("promise", "broken promise", ""),
    ],
)
def test_what_is_no_price_is_neither_called_nor_accepted_as_one(archive: Archive, name: str, word: str, accepts: str) -> None:
    finding = examples(archive)[name]
    assert (type_of(finding).word("", finding.effect), type_of(finding).accept_label) == (word, accepts)
    offered = possible_actions(load(), _kept(archive, finding))
    assert ("accept" in offered) == bool(accepts)


def _kept(archive: Archive, finding: Finding) -> Any:
    keep(archive, finding)
    return archive.finding(finding.finding_id)


def test_a_new_type_is_one_file(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_type.py").write_text(
        """
from plumbline.findings.types.base import FindingType, register


@register
class LostBadge(FindingType):
    id = "lost_badge"
    kinds = ("reliability",)
    subject = "badge/"
    noun = "lost badge"
    advice = "Ask for a badge of"
    resolved_if = "found again"
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(base, "TYPES", list(base.TYPES))
    monkeypatch.setattr(sys.modules["plumbline.findings.types"], "TYPES", base.TYPES)
    __import__("toy_type")
    node = examples(archive)["node"]
    finding = replace(node, subject="badge/7", title="badge 7 is lost", finding_id="badge0000007")
    keep(archive, finding)
    view = archive.finding(finding.finding_id)
    alert = alert_of(archive, load(), view)
    message = render(alert.finding, alert.context)
    assert type_of(finding).noun == "lost badge" and "badge 7 is lost" in message.text and "found again" in message.text
    assert finding_row(view).type == "lost_badge" and "accept" not in possible_actions(load(), view)
    assert "badge 7 is lost" in finding_page(archive, load(), finding.finding_id, NOW).words
    with pytest.raises(ValueError, match="lost_badge is registered twice"):
        base.register(type(type_of(finding)))


READS = {"results/finding.py", "results/stored.py"}
"""Below the types: they store a finding, and hide what rests on prices."""


def test_subjects_of_findings_are_parsed_in_their_types_only() -> None:
    found = {}
    for path in ROOM.rglob("*.py"):
        name = str(path.relative_to(ROOM))
        if not name.startswith("findings/types/") and name not in READS and (lines := parsed_subjects(path.read_text())):
            found[name] = lines
    assert found == {}


def parsed_subjects(source: str) -> list[int]:
    """Lines that take a `subject` apart, or compare it with a text."""
    lines = []
    for node in ast.walk(source_tree(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_subject(node.func.value):
            lines += [node.lineno] if node.func.attr in ("startswith", "removeprefix", "split", "partition", "rpartition") else []
        if isinstance(node, ast.Compare) and any(map(_is_subject, (node.left, *node.comparators))):
            lines += [node.lineno] if any(isinstance(c, ast.Constant) for c in (node.left, *node.comparators)) else []
    return lines


def _is_subject(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "subject"


def test_a_planted_parse_is_found() -> None:
    assert parsed_subjects("if finding.subject.startswith('winner/'):\n    pass\nx = f.subject == 'probe'\n") == [1, 3]


def test_a_kind_without_a_type_is_named() -> None:
    with pytest.raises(LookupError, match="no type of finding has kind weather; expected environment"):
        stored_type("weather", "rain")
