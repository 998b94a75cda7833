"""A look at a provider from end to end: archive, findings, what the next campaign and people make of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.result_documents import FACTS, document, provider, training_metrics, trial
from tests.fakes.fake_kubernetes import FakeKubernetes
from tests.fakes.trials import CONFIG, H100, cluster_provider

from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider, load
from plumbline.findings.types.failing_check import FailingCheck
from plumbline.launch.failures import Unreachable
from plumbline.launch.launcher import ProviderFacts
from plumbline.results import Environment
from plumbline.results.finding import Finding
from plumbline.workflows import check_provider, pending_changes
from plumbline.workflows.check_provider import EnvironmentCheck, compare_with_accepted
from plumbline.workflows.review import review_campaign

START = datetime(2026, 11, 1, 6, tzinfo=timezone.utc)
LAB = provider()
KERNEL = {"os.kernel": "6.1.0", "cpu.model": "Example CPU 9000"}
NEWER = {**KERNEL, "os.kernel": "6.11.0"}


def news(found: EnvironmentCheck) -> list[tuple[str, str, str]]:
    return [(change["fact"], change["old"], change["new"]) for change in found.news]


Looks = Callable[..., EnvironmentCheck]


@pytest.fixture(scope="module")
def known() -> Declarations:
    return load(CONFIG)


@pytest.fixture
def looked(archive: Archive, known: Declarations) -> Looks:
    """looked(day, facts, …): the nodes that show these facts, looked at on that day of the course."""

    def at(day: float, *nodes: dict[str, Any], where: Provider = LAB) -> EnvironmentCheck:
        return compare_with_accepted(archive, known, where, ProviderFacts(nodes, {}), START + timedelta(days=day))

    return at


def measure(archive: Archive, campaign: str, day: float, facts: dict[str, Any], step_time: float = 0.1) -> None:
    for repeat in range(1, 7):
        asked = trial(campaign=campaign, repeat=repeat, planned_at=START + timedelta(days=day), where=LAB)
        metrics = training_metrics(step_time * (1 + 0.001 * repeat))
        archive.record(document(asked, metrics=metrics, environment=Environment.of({**FACTS, **facts})), uri="file:///nowhere")


def open_findings(archive: Archive) -> list[Finding]:
    return [Finding.of(f.detail).with_state(f.state) for f in archive.findings_of("lab-2core", unsettled=True)]


def test_the_first_look_knows_nothing_and_says_so_unless_a_campaign_measured(archive: Archive, looked: Looks) -> None:
    first = looked(0, KERNEL)
    assert (first.changes, first.news, first.findings, first.facts["os.kernel"]) == ((), (), (), "6.1.0")
    assert len(first.notes) == 1
    assert looked(1, KERNEL).notes == ()


def test_a_node_in_another_zone_than_declared_is_found_until_it_is_back_or_accepted(archive: Archive, looked: Looks) -> None:
    zoned = LAB.model_copy(update={"zone": "here-1"})
    right, wrong = ({**KERNEL, "host.region": "HERE", "host.zone": zone} for zone in ("here-1", "here-2"))
    first = looked(0, wrong, where=zoned)
    assert [(change["fact"], change["old"], change["new"]) for change in first.changes] == [("host.zone", "here-1", "here-2")]
    (finding,) = open_findings(archive)
    assert (finding.attributed_to, finding.explanation.split(";")[0]) == (("host.zone",), "compared with the declaration")
    assert looked(1, right, where=zoned).changes == () and open_findings(archive) == []
    (again,) = looked(2, right, wrong, where=zoned).findings
    assert looked(3, wrong, where=LAB).changes == (), "no zone is declared"
    assert again != finding.finding_id and archive.finding(again).state == "resolved"


def test_what_changed_since_the_last_campaign_is_found_by_the_first_look(archive: Archive, looked: Looks) -> None:
    measure(archive, "2026-10", -5, {})
    found = looked(0, NEWER)
    assert news(found) == [("os.kernel", "6.1.0", "6.11.0")] and "6.1.0 → 6.11.0" in found.reason
    (finding,) = open_findings(archive)
    assert found.findings == (finding.finding_id,)
    assert (finding.attributed_to, finding.since) == (("os.kernel",), "2026-11-01") and "6.1.0 → 6.11.0" in finding.evidence
    assert "2026-10" in finding.explanation and LAB.dag_id in finding.explanation


def test_a_change_is_news_once_stands_until_it_is_back_and_to_look_again_changes_nothing(archive: Archive, looked: Looks) -> None:
    looked(0, KERNEL)
    opened = looked(1, NEWER)
    again = looked(2, NEWER, NEWER)
    assert opened.news and not again.news
    assert again.changes == opened.changes and again.findings == opened.findings and len(open_findings(archive)) == 1
    back = looked(3, KERNEL)
    assert news(back) == [("os.kernel", "6.11.0", "6.1.0")] and back.findings == opened.findings and open_findings(archive) == []
    assert archive.finding(opened.findings[0]).state == "resolved"
    assert looked(4, NEWER).findings != opened.findings, "once more is another finding"


def test_the_rerun_continues_the_finding_and_no_fact_has_two(archive: Archive, looked: Looks) -> None:
    measure(archive, "2026-10", -5, {})
    review_campaign("2026-10")
    noticed = looked(0, NEWER).findings[0]
    measure(archive, "od-1", 0.1, {"os.kernel": "6.11.0"}, step_time=0.12)
    review_campaign("od-1")
    kinds = {f.kind: f for f in open_findings(archive)}
    assert set(kinds) == {"environment", "performance"} and len(open_findings(archive)) == 2
    environment = kinds["environment"]
    assert (environment.finding_id, environment.since, environment.seen_in) == (noticed, "2026-11-01", ("od-1",))
    assert "performance changed too" in environment.explanation and environment.baseline_campaigns == ("2026-10",)
    assert "os.kernel" in kinds["performance"].attributed_to
    assert looked(1, NEWER).news == () and len(open_findings(archive)) == 2


def test_what_a_review_found_first_is_not_found_again_by_a_look(archive: Archive, looked: Looks) -> None:
    measure(archive, "2026-10", -5, {})
    review_campaign("2026-10")
    looked(0, KERNEL)
    measure(archive, "2026-11", 0.1, {"os.kernel": "6.11.0"})
    review_campaign("2026-11")
    (reviewed,) = open_findings(archive)
    later = looked(1, NEWER)
    assert (later.findings, open_findings(archive)) == ((reviewed.finding_id,), [reviewed])


def test_what_a_person_accepts_is_what_the_next_look_is_held_against(archive: Archive, looked: Looks) -> None:
    now = (datetime.now(timezone.utc) - START) / timedelta(days=1)  # acceptance has the clock's time
    looked(now - 0.2, KERNEL)
    (noticed,) = looked(now - 0.1, NEWER).findings
    archive.set_finding_state(noticed, "accepted", by="ada", why="announced")
    assert looked(now + 0.1, NEWER).changes == () and open_findings(archive) == []
    assert news(looked(now + 0.2, {**KERNEL, "os.kernel": "6.14"})) == [("os.kernel", "6.11.0", "6.14")]
    assert looked(now + 0.3, KERNEL).changes[0]["old"] == "6.11.0", "the old one is a change now"


def test_what_a_campaign_showed_and_a_person_accepted_is_no_change_for_a_look_that_comes_after_both(
    archive: Archive, looked: Looks
) -> None:
    now = (datetime.now(timezone.utc) - START) / timedelta(days=1)
    measure(archive, "2026-10", -5, {})
    review_campaign("2026-10")
    looked(now - 0.3, KERNEL)
    measure(archive, "2026-11", now - 0.2, {"os.kernel": "6.11.0"})
    review_campaign("2026-11")
    archive.set_finding_state(open_findings(archive)[0].finding_id, "accepted", by="ada", why="announced")
    assert looked(now + 0.1, NEWER).changes == () and open_findings(archive) == []


def test_a_fact_that_a_discovery_tells_from_today_on_is_no_change_today_but_can_be_one_tomorrow(archive: Archive, looked: Looks) -> None:
    looked(0, KERNEL)
    assert looked(1, {**KERNEL, "driver.version": "550"}).changes == ()
    assert news(looked(2, {**KERNEL, "driver.version": "570"})) == [("driver.version", "550", "570")]


def test_of_a_cluster_only_what_trials_tell_in_the_same_words_is_held_against_them(archive: Archive, looked: Looks) -> None:
    cluster = cluster_provider("lab-2core", H100)
    measure(archive, "2026-10", -5, {"driver.version": "550", "os.name": "Image 1", "gpu.0.product": "H100"})
    node = {"driver.version": "570", "os.image": "Node OS", "os.name": "Node OS", "gpu.product": "NVIDIA H100"}
    assert [c["fact"] for c in looked(0, node, where=cluster).changes] == ["driver.version"]


def test_a_provider_that_is_not_watched_is_looked_at_and_starts_nothing(archive: Archive, looked: Looks) -> None:
    alone = provider(watch={"enabled": False})
    looked(0, KERNEL, where=alone)
    found = looked(1, NEWER, where=alone)
    assert found.changes and found.news == () and pending_changes.pending_event(archive, LAB.name) is None
    assert "watch.enabled is false" in open_findings(archive)[0].explanation


@pytest.fixture
def config(tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with the cluster cluster-a and the simulated provider sim."""
    (tmp_path / "config" / "providers").mkdir(parents=True)
    shutil.copy(CONFIG / "thresholds.yaml", tmp_path / "config")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    for place in (cluster_provider(accelerator=H100), provider("sim", launcher={"kind": "simulated"})):
        declare(tmp_path / "config", place)
    return tmp_path / "config"


def declare(config: Path, place: Provider) -> None:
    (config / "providers" / f"{place.name}.yaml").write_text(yaml.safe_dump(place.model_dump(mode="json", exclude_defaults=True)))


def test_a_driver_that_changes_on_a_cluster_is_found_by_its_node_labels(
    archive: Archive, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json())
        check_provider.check_environment("cluster-a", START)
        changed = kube.node("node-1")
        changed["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = "575.1"
        kube.put("nodes", "", changed)
        later = check_provider.check_environment("cluster-a", START + timedelta(days=1))
        assert news(later) == [("driver.version", "570.86.15", "575.1")]


def test_a_cluster_that_nobody_can_look_at_for_days_is_a_finding_until_somebody_can(
    archive: Archive, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json())
        check_provider.check_environment("cluster-a", START)
        kube.down()
        for day in (1, 3, 4):
            with pytest.raises(Unreachable):
                check_provider.check_environment("cluster-a", START + timedelta(days=day), patience_s=0.1)
            assert len(archive.findings_of("cluster-a", unsettled=True)) == (day > 1)
        (blind,) = archive.findings_of("cluster-a", unsettled=True)
        assert (blind.kind, blind.detail["subject"], blind.detail["since"]) == ("missing_data", FailingCheck.subject, "2026-11-01")
        assert check_provider.check_environment("sim", START).nodes == 1, "the others are looked at all the same"
        kube.up()
        check_provider.check_environment("cluster-a", START + timedelta(days=5))
        assert archive.findings_of("cluster-a", unsettled=True) == []


def test_an_unknown_provider_is_named_with_those_that_there_are(archive: Archive, config: Path) -> None:
    with pytest.raises(LookupError, match=r'"nowhere".*cluster-a, sim'):
        check_provider.check_environment("nowhere")


def test_a_price_that_changes_starts_nothing(archive: Archive, config: Path) -> None:
    for usd in (49, 39):
        price = {"purchase": "on_demand", "price": f"{usd} USD/h", "since": "2026-01-01", "source": "a test"}
        file = config / "providers" / "sim.yaml"
        declared = {**yaml.safe_load(file.read_text()), "prices": [price]}
        file.write_text(yaml.safe_dump(declared))
        assert check_provider.check_environment("sim", START).news == ()
    assert pending_changes.pending_event(archive, "sim") is None
