"""From result documents to bills: what was used, what came to nothing, and what a finished run cost."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from tests.data.result_documents import PLANNED, document, failed, inference_metrics, inference_workload, provider, training_workload, trial

from plumbline.analysis.cost.campaign_bill import CampaignBill, measured_s, rejected_usage, usage_of
from plumbline.analysis.prices.book import quote
from plumbline.metrics import Phase
from plumbline.results import Event, LaunchRecord, PodRecord, ResultDocument, metric_row

ON = date(2025, 11, 1)
PRICE = {"purchase": "on_demand", "price": "3.60 USD/h", "since": "2025-01-01", "source": "an example"}
WORK = {"what": "image updates", "time": "2h", "per": "campaign", "price": "120 USD/h", "since": "2025-01-01", "source": "an estimate"}
PLACE = provider(prices=[PRICE])


def timeline(**at: float) -> tuple[Event, ...]:
    return tuple(Event(name=name, utc=PLANNED + timedelta(seconds=s), monotonic_s=s) for name, s in at.items())


SERVED = timeline(
    harness_started=0.0, measurement_started=10.0, server_started=10.0, first_inference_ended=30.0,
    warmup_started=30.0, warmup_ended=40.0, steady_started=40.0, steady_ended=100.0,
    fault_started=100.0, fault_ended=130.0, measurement_finished=140.0, evidence_stored=150.0,
)  # fmt: skip


def launched(found: ResultDocument, seconds: float, launcher: str = "local") -> ResultDocument:
    events = [
        Event(name=n, utc=PLANNED + timedelta(seconds=s), monotonic_s=s, clock="launcher")
        for n, s in (("requested", 0.0), ("finished", seconds))
    ]
    return found.with_launch(LaunchRecord(launcher=launcher, events=tuple(events), exit_code=0))  # type: ignore[arg-type]


def served(repeat: int = 1, seconds: float = 200.0, where: Any = PLACE, **fields: Any) -> ResultDocument:
    return launched(document(trial("inference", repeat=repeat, where=where), timeline=SERVED, **fields), seconds)


def test_warm_up_start_and_stop_are_not_measured() -> None:
    # The cold start 10…30, steady 40…100, the fault 100…130: 110 of 200 s.
    assert measured_s(served()) == 110.0
    use = usage_of(served())
    assert (use.held_s, use.measured_s, use.evidence_bytes, use.egress_bytes, use.usable) == (200.0, 110.0, 1000, 0, True)


def test_a_training_measures_its_cold_start_and_every_interruption() -> None:
    once = timeline(
        measurement_started=0.0, training_launched=1.0, first_step_done=11.0, steady_begun=20.0, steady_ended=50.0,
        rank_killed=60.0, rank_death_detected=61.0, training_relaunched=62.0, state_loaded=65.0, lost_step_done_again=70.0,
    )  # fmt: skip
    again = timeline(rank_killed=80.0, lost_step_done_again=85.0, training_done=95.0)
    # 10 s of cold start, 30 s of steady steps, interruptions of 10 and 5 s; steps that are thrown away, checkpoints and the end are not in it.
    struck = trial(workload=training_workload(fault={"inject": "rank_kill", "at_step": 11, "times": 2}))
    assert measured_s(document(struck, timeline=(*once, *again))) == 55.0
    broke = tuple(
        each.model_copy(update={"name": "training_broke_off"}) if each.name == "rank_killed" else each for each in (*once, *again)
    )
    assert measured_s(document(trial(), timeline=broke)) == 55.0, "no fault is declared"


def test_what_overlaps_counts_once() -> None:
    seen = timeline(fault_started=0.0, fault_ended=50.0, recovery_started=30.0, recovery_ended=60.0)
    assert measured_s(document(trial("inference"), timeline=seen)) == 60.0


def test_a_trial_that_tells_no_phases_measured_nobody_knows_how_long() -> None:
    told = timeline(harness_started=0.0, measurement_started=5.0, measurement_finished=65.0)
    assert measured_s(document(trial(), timeline=told)) is None
    assert measured_s(document(trial(), timeline=told, simulated=True)) == 60.0


def test_every_node_of_a_gang_is_held_and_measures() -> None:
    # Two pods, held for 100 and 90 s from their nodes' assignment; each measured the same 60 s.
    def pod(rank: int, begun: float, ended: float) -> PodRecord:
        at = {"requested": 0.0, "scheduled": begun, "finished": ended}
        events = tuple(Event(name=name, utc=PLANNED + timedelta(seconds=s), clock="cluster") for name, s in at.items())
        return PodRecord(name=f"p-{rank}", rank=rank, events=events)

    asked = trial(where=PLACE, workload=training_workload(parallelism={"nodes": 2}))
    record = LaunchRecord(launcher="kubernetes", events=(), exit_code=0, pods=(pod(0, 10.0, 110.0), pod(1, 20.0, 110.0)))
    use = usage_of(document(asked, timeline=timeline(steady_begun=20.0, steady_ended=80.0)).with_launch(record))
    assert (use.held_s, use.measured_s) == (190.0, 120.0)


def test_only_what_left_a_cluster_went_home() -> None:
    cluster = {
        "kind": "kubernetes", "connection": "k8s", "images": {"inference": "localhost/x:1"},
        "resources": {"cpu": 2, "memory": "8GiB"}, "results_url": "s3://b/p",
    }  # fmt: skip
    assert usage_of(served(where=provider(launcher=cluster))).egress_bytes == 1000
    assert usage_of(served()).egress_bytes == 0


def test_answers_to_a_client_elsewhere_leave_the_provider() -> None:
    phases: tuple[tuple[Phase, float], ...] = (("warmup", 100.0), ("steady", 2000.0))
    rows = [*inference_metrics(), *(metric_row("response_bytes", n, 5, phase=phase) for phase, n in phases)]

    hosted = provider(launcher={"kind": "endpoint", "url": "https://host/v1", "protocol": "openai", "model": "m"})

    def response_bytes(placement: str, where: Any = hosted) -> float:
        server = {"backend": "external", "client_placement": placement}
        asked = trial("inference", where=where, workload=inference_workload(server=server))
        return usage_of(document(asked, timeline=SERVED, metrics=rows)).response_bytes

    assert [response_bytes(placement) for placement in ("same_node", "other_node", "other_region")] == [0.0, 2100.0, 2100.0]
    assert usage_of(served()).response_bytes == response_bytes("other_node", PLACE) == 0.0


def test_a_failed_attempt_is_a_line_of_its_trial_s_bill() -> None:
    first = launched(failed(trial("inference", where=PLACE)), 100.0)
    second = launched(document(trial("inference", where=PLACE, attempt=2), timeline=SERVED), 200.0)
    (bill,) = (
        CampaignBill(
            "c",
            (
                second,
                first,
            ),
            {PLACE.name: PLACE},
        )
        .bills(ON)
        .values()
    )
    assert {item: str(m) for item, m in bill.by_item().items()} == {"cpu": "0.11 USD", "idle": "0.09 USD", "failed_launches": "0.10 USD"}
    assert bill.lines[0].what == "out of memory"


def test_failed_launches_are_shared_over_the_finished_runs() -> None:
    documents = [served(1), served(2), launched(failed(trial("inference", repeat=3, where=PLACE)), 100.0)]
    (cost,) = CampaignBill("c", tuple(documents), {PLACE.name: PLACE}).by_provider(ON)
    assert (cost.trials, cost.finished, cost.lost) == (3, 2, 1)
    # 200 + 200 + 100 s at 3.60 USD/h are 0.50 USD.
    assert (str(cost.bill.total), str(cost.per_finished_run), cost.why_not) == ("0.50 USD", "0.25 USD", "")


def test_without_a_finished_run_there_is_no_cost_of_one() -> None:
    (cost,) = CampaignBill("c", (launched(failed(trial("inference", where=PLACE)), 100.0),), {PLACE.name: PLACE}).by_provider(ON)
    assert cost.per_finished_run is None and cost.why_not == "no run finished"
    bare = provider()
    (cost,) = CampaignBill("c", (served(where=bare),), {bare.name: bare}).by_provider(ON)
    assert cost.per_finished_run is None and quote(bare, ON).reason in cost.why_not.split("; ")


def test_what_the_quality_checks_reject_was_paid_for_nothing() -> None:
    found = served()
    (bill,) = CampaignBill("c", (found,), {PLACE.name: PLACE}, rejected=frozenset({(found.trial.trial_id, 1)})).bills(ON).values()
    assert {line.what for line in bill.lines} == {rejected_usage(usage_of(found)).ended}
    assert str(bill.of("failed_launches")) == "0.20 USD"


def test_what_a_campaign_costs_once_is_shared_by_its_trials() -> None:
    place = provider(prices=[PRICE], overhead=[WORK])
    documents = [served(1, where=place), served(2, where=place), launched(failed(trial("inference", repeat=3, where=place)), 1.0)]
    bills = CampaignBill("c", tuple(documents), {place.name: place}).bills(ON)
    assert [str(bill.of("engineering")) for bill in bills.values()] == ["80.00 USD"] * 3
    (cost,) = CampaignBill("c", tuple(documents), {place.name: place}).by_provider(ON)
    assert str(cost.bill.of("engineering")) == "240.00 USD"


def test_without_a_day_each_attempt_costs_what_its_own_day_did() -> None:
    dearer = {**PRICE, "price": "7.20 USD/h", "since": "2025-12-01"}
    place = provider(prices=[{**PRICE, "until": "2025-12-01"}, dearer])
    found = served(where=place)
    (own,) = CampaignBill("c", (found,), {place.name: place}).bills().values()
    (later,) = CampaignBill("c", (found,), {place.name: place}).bills(date(2025, 12, 24)).values()
    assert (str(own.of("cpu", "idle")), str(later.of("cpu", "idle"))) == ("0.20 USD", "0.40 USD")


def test_a_launch_that_never_had_a_place_held_nothing() -> None:
    requested = LaunchRecord(launcher="local", events=(Event(name="requested", utc=PLANNED, monotonic_s=1.0, clock="launcher"),))
    found = failed(trial(where=PLACE), "insufficient_capacity").with_launch(requested)
    assert usage_of(found).held_s == 0.0
    assert usage_of(failed(trial(where=PLACE))).held_s is None  # nobody saw its launch


@pytest.mark.parametrize("retention_s", [None, 180 * 86400.0])
def test_how_long_evidence_is_kept_is_what_storage_costs(retention_s: float | None) -> None:
    rate = {"item": "storage", "price": "0.08 USD/GB-month", "since": "2025-01-01", "source": "an example"}
    place = provider(prices=[PRICE], rates=[rate])
    (bill,) = CampaignBill("c", (served(where=place),), {place.name: place}, retention_s=retention_s).bills(ON).values()
    assert (bill.of("storage") is None) == (retention_s is None)
    assert ("storage" in {each.item for each in bill.unknown}) == (retention_s is None)


def test_a_training_run_and_an_inference_run_are_never_averaged() -> None:
    trained = launched(document(trial(where=PLACE)), 400.0)
    costs = CampaignBill(
        "c",
        (
            served(),
            trained,
        ),
        {PLACE.name: PLACE},
    ).by_provider(ON)
    assert [(c.kind, c.finished, str(c.per_finished_run)) for c in costs] == [("inference", 1, "0.20 USD"), ("training", 1, "0.40 USD")]
