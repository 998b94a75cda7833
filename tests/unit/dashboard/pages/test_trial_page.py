"""The page of a trial: its timeline as bars, what it cost, charts of its raw evidence, and that evidence to download."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.sample import BEGAN, campaign, record
from tests.data.result_documents import document, failed, provider, trial
from tests.fakes.trials import CONFIG

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages import trials
from plumbline.declarations import Declarations, load
from plumbline.metrics.formatting import capitalize_first, format_name
from plumbline.presentation.charts.trial import timeline_chart, timeline_spans
from plumbline.presentation.costs import TrialCostView, trial_cost
from plumbline.results import Event, LaunchRecord, PodRecord, ResultDocument, signing

TRAINING = "2026-11.local-1core.training.gpt-tiny-cpu.0200.r1"
RULE = "older than a second"
INFERENCE = "2026-11.local-1core.inference.chat-tiny-cpu.0200.r1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_RESULTS_URL", (tmp_path / "results").as_uri())
    data = campaign(tmp_path / "results", repeats=1)
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        record(archive, data)
    return tmp_path


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")) as opened:
        yield opened


def file_of(home: Path, trial_id: str, name: str) -> Path:
    return home / "results" / "2026-11" / trial_id / "attempt-1" / "evidence" / name


def at(name: str, seconds: float, clock: str = "harness") -> Event:
    return Event(name=name, utc=BEGAN + timedelta(seconds=seconds), clock=clock)  # type: ignore[arg-type]


def on_a_cluster() -> ResultDocument:
    """Requested at 0, on a node at 5, image from 6 to 26, measured from 40 to 100, gone at 103."""
    harness = (at("harness_started", 30), at("measurement_started", 40), at("steady_started", 50), at("steady_ended", 100))
    pod = PodRecord(
        name="p0",
        rank=0,
        events=tuple(
            at(name, second, "cluster")
            for name, second in (
                ("requested", 0),
                ("scheduled", 5),
                ("image_pulling", 6),
                ("image_pulled", 26),
                ("started", 28),
                ("finished", 101),
            )
        ),
    )
    record = LaunchRecord(launcher="kubernetes", events=(at("requested", 0, "launcher"), at("deleted", 103, "launcher")), pods=(pod,))
    return document(trial(), timeline=harness).with_launch(record)


def test_every_stretch_between_two_events_of_a_lane_is_a_bar() -> None:
    found = {(s.lane, s.name): (s.begin, s.end, s.activity) for s in timeline_spans(on_a_cluster())}
    assert found["launcher", "launch"] == (0, 103, "waiting")
    assert found["pod 0", "node wait"] == (0, 5, "waiting")
    assert found["pod 0", "image pull"] == (6, 26, "starting")
    assert found["pod 0", "run"] == (28, 101, "measuring")
    assert found["harness", "steady"] == (50, 100, "measuring")
    unnamed = {name: span for (lane, name), span in found.items() if lane == "harness" and "→" in name}
    assert (40, 50, "starting") in unnamed.values(), "a stretch without a name is named by its events"


def test_the_picture_holds_every_bar_on_one_axis() -> None:
    chart = timeline_chart(on_a_cluster())
    assert chart is not None
    assert chart.layout["yaxis"]["categoryarray"] == ["harness", "pod 0", "launcher"], "drawn from below"
    bars = {
        (lane, told[0]): (base, wide)
        for d in chart.data
        for lane, told, base, wide in zip(d["y"], d["customdata"], d["base"], d["x"], strict=True)
    }
    assert bars["pod 0", "image pull"] == (6, 20)
    assert len({(d["marker"]["color"], d["marker"]["pattern"]["shape"]) for d in chart.data}) == len(chart.data)


def test_a_simulated_trial_is_told_by_the_time_that_it_simulates() -> None:
    quick = tuple(
        Event(name=name, utc=BEGAN + timedelta(seconds=s / 1000), monotonic_s=s)
        for name, s in (("steady_started", 5.0), ("steady_ended", 65.0))
    )
    simulated, measured = (
        document(trial(), timeline=quick, simulated=s).with_launch(LaunchRecord(launcher="simulated", events=())) for s in (True, False)
    )
    assert [(s.begin, s.end) for s in timeline_spans(simulated)] == [(0.0, 60.0)]
    assert [(s.begin, round(s.end, 3)) for s in timeline_spans(measured)] == [(0.0, 0.06)], "a real one by the wall clock"


def test_a_trial_that_nobody_saw_has_no_picture() -> None:
    assert timeline_chart(document(trial(), timeline=())) is None


def test_the_page_has_the_timeline_the_bill_and_links_to_its_files(client: TestClient) -> None:
    text = client.get(f"/trials/{INFERENCE}").text
    assert 'data-for="from-request-to-release"' in text
    assert f'href="/trials/{INFERENCE}/evidence/0?attempt=1"' in text
    bill = text[text.index('id="cost"') :].split("</section>")[0]
    # 33 s of the declared 0.02 USD/h.
    assert "0.000183 USD" in bill and "0.02 USD/instance-hour" in bill and "example figure" in bill
    assert "<b>egress</b>" not in bill, "nothing left this machine"


def test_a_provider_that_is_gone_has_no_price(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        assert "no longer declared" in client.get(f"/trials/{trial().trial_id}").text


def test_charts_are_drawn_from_the_stored_files(client: TestClient) -> None:
    inference = client.get(f"/trials/{INFERENCE}/charts").json()
    metrics = ("time_to_first_token", "request_scheduled_latency")
    assert [c["title"] for c in inference["charts"]] == [capitalize_first(format_name(metric)) for metric in metrics]
    assert inference["charts"][0]["data"][0]["y"][-1] == 1.0 and inference["notes"] == []
    training = client.get(f"/trials/{TRAINING}/charts").json()
    assert len(training["charts"][0]["data"][0]["x"]) == 130
    assert client.get("/trials/nothing/charts").status_code == 404


def test_what_cannot_be_drawn_is_said(home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    file_of(home, INFERENCE, "requests.parquet").write_bytes(b"no parquet")
    assert "cannot be read" in client.get(f"/trials/{INFERENCE}/charts").json()["notes"][0]
    file_of(home, INFERENCE, "requests.parquet").unlink()
    assert "is missing" in client.get(f"/trials/{INFERENCE}/charts").json()["notes"][0]
    monkeypatch.setattr(trials, "MOST_BYTES", 10)
    assert "chart limit" in client.get(f"/trials/{TRAINING}/charts").json()["notes"][0]


def test_a_file_comes_with_its_checksum_and_as_a_file(home: Path, client: TestClient) -> None:
    found = client.get(f"/trials/{INFERENCE}/evidence/0")
    stored = file_of(home, INFERENCE, "requests.parquet").read_bytes()
    assert found.status_code == 200 and found.content == stored
    sha = hashlib.sha256(stored)
    assert found.headers["x-checksum-sha256"] == sha.hexdigest()
    assert found.headers["repr-digest"] == f"sha-256=:{base64.b64encode(sha.digest()).decode()}:"
    assert found.headers["content-length"] == str(len(stored))
    assert found.headers["content-disposition"] == f"attachment; filename*=UTF-8''{INFERENCE}.attempt-1.requests.parquet"
    assert found.headers["x-content-type-options"] == "nosniff"


def test_only_so_many_files_are_handed_out_at_once_and_each_makes_room_for_the_next(home: Path, client: TestClient) -> None:
    url = f"sqlite:///{home / 'archive.db'}"
    with open_archive(url) as archive:
        found = archive.document(INFERENCE)
    assert found is not None
    folder = file_of(home, INFERENCE, "requests.parquet").parents[1].as_uri()
    held = [trials.fetch_evidence(folder, found.evidence[0], None) for _ in range(trials.MAX_CONCURRENT_DOWNLOADS)]
    busy = client.get(f"/trials/{INFERENCE}/evidence/0")
    assert busy.status_code == 503 and "Try again" in busy.text
    held.pop()
    for _ in range(2 * trials.MAX_CONCURRENT_DOWNLOADS):
        assert client.get(f"/trials/{INFERENCE}/evidence/0").status_code == 200


@pytest.mark.fault("an evidence file was changed", ends="not served", keeps="the page says so")
def test_a_file_that_was_changed_is_not_handed_out(home: Path, client: TestClient) -> None:
    file = file_of(home, INFERENCE, "requests.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    same_size = client.get(f"/trials/{INFERENCE}/evidence/0")
    file.write_bytes(b"x" * 10_000)
    longer = client.get(f"/trials/{INFERENCE}/evidence/0")
    for found in (same_size, longer):
        assert found.status_code == 502 and "SHA-256" in found.text


def test_a_file_that_is_not_there_is_told_by_why(home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    file_of(home, INFERENCE, "requests.parquet").unlink()
    missing = client.get(f"/trials/{INFERENCE}/evidence/0")
    assert missing.status_code == 404 and "is missing" in missing.text
    for number in ("1", "-1", "..%2F..%2Farchive.db", "requests.parquet"):
        assert client.get(f"/trials/{TRAINING}/evidence/{number}").status_code in (404, 422)
    monkeypatch.setattr(trials, "MAX_DOWNLOAD_BYTES", 10)
    assert client.get(f"/trials/{TRAINING}/evidence/0").status_code == 413


def test_a_file_that_expired_is_gone(home: Path) -> None:
    url = f"sqlite:///{home / 'archive.db'}"
    with open_archive(url) as archive:
        found = archive.document(INFERENCE)
        assert found is not None
        later = {"campaign_id": "2026-12", "trial_id": INFERENCE.replace("2026-11", "2026-12"), "planned_at": BEGAN + timedelta(days=30)}
        archive.record(failed(found.trial.model_copy(update=later)), uri="file:///store")  # the newest campaign's files never expire
        archive.expire_evidence(1.0, RULE, (home / "results").as_uri())
    with TestClient(create_app(archive_url=url, reports=home)) as client:
        gone = client.get(f"/trials/{INFERENCE}/evidence/0")
        page = client.get(f"/trials/{INFERENCE}").text
    assert gone.status_code == 410 and RULE in gone.text
    assert "/evidence/0" not in page


def test_outcomes_are_at_the_price_of_the_bill(tmp_path: Path) -> None:
    """An invoice goes before the list in both: what a request costs and what the run cost must not contradict each other."""
    listed = {"purchase": "on_demand", "price": "3.60 USD/h", "since": "2025-01-01", "source": "price page"}
    invoice = {"month": "2025-11", "amount": "72 USD", "instance_hours": 10, "source": "invoice 4711"}

    def of(**more: object) -> TrialCostView:
        where = provider(prices=[listed], **more)
        declared = Declarations({where.name: where}, {}, {}, load(CONFIG).thresholds)
        with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
            asked = document(trial("inference", where=where))
            archive.record(asked, uri="file:///store")
            return trial_cost(archive, declared, asked, archive.trials(asked.trial.campaign_id))

    by_list, invoiced = dict(of().outcomes), dict(of(invoices=[invoice]).outcomes)
    assert by_list.keys() == invoiced.keys() and all(by_list[name] != invoiced[name] for name in by_list if by_list[name][0].isdigit())
    assert [str(line.unit_price) for line in of(invoices=[invoice]).lines] == ["7.2 USD/instance-hour"]


def test_a_rejected_attempt_was_paid_for_nothing_and_a_trial_carries_its_share(tmp_path: Path) -> None:
    where = provider(
        prices=[{"purchase": "on_demand", "price": "3.60 USD/h", "since": "2025-01-01", "source": "price page"}],
        overhead=[
            {"what": "image updates", "time": "2h", "per": "campaign", "price": "100 USD/h", "since": "2025-01-01", "source": "finance"}
        ],
    )
    declared = Declarations({where.name: where}, {}, {}, load(CONFIG).thresholds)
    good, bad = (document(trial("inference", where=where, repeat=n)) for n in (1, 2))
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(good, uri="file:///store")
        archive.record(bad, uri="file:///store", action="reject")
        shown = [
            trial_cost(archive, declared, d, [t for t in archive.trials("2025-11") if t.trial_id == d.trial.trial_id]) for d in (good, bad)
        ]
    for cost in shown:
        (engineering,) = (line for line in cost.lines if line.item.startswith("engineering"))
        assert str(engineering.cost) == "100.00 USD", "half of two hours"
    assert shown[0].outcomes and not shown[1].outcomes
    assert "failed_launches" in {line.item for line in shown[1].lines}


@pytest.mark.parametrize("how", ["verified", "broken", "not_signed"])
def test_the_page_says_whether_the_signature_holds(client: TestClient, home: Path, how: str) -> None:
    key, asked = signing.KeyPair.generate(), trial(campaign="2025-09")
    found = document(asked)
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        if how != "not_signed":
            archive.issue_signing_key(asked.campaign_id, asked.trial_id, 1, key.public_hex)
            found = signing.sign(found, key if how == "verified" else signing.KeyPair.generate())
        archive.record(found, uri="file:///nowhere")
    assert f'data-signature="{how}"' in client.get(f"/trials/{asked.trial_id}").text
