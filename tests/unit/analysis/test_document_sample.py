"""From documents to plain numbers: what is missing, rejected or unknown stays so."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.browser.sample import campaign
from tests.fakes.trials import CPU, H100, cluster_provider

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.document_sample import campaign_numbers, held_seconds, sample_of
from plumbline.declarations import HARNESS_PROTOCOL, TrainingWorkload
from plumbline.results import Event, LaunchRecord, PodRecord
from plumbline.results.document import ReplicaCount
from plumbline.results.evidence_files import damaged_files

BEGAN = datetime(2026, 11, 1, 2, 0, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


def test_numbers_keep_what_the_document_says(sample: CampaignData) -> None:
    document = sample.documents[0]
    numbers = sample_of(document)
    assert (numbers.provider, numbers.kind, numbers.status, numbers.attempt) == ("local-1core", "training", "valid", 1)
    assert [m.metric for m in numbers.metrics] == [*(m.metric for m in document.metrics), "provisioning_lead_time"], (
        "the launch was seen too"
    )
    assert numbers.value("step_time", "median", "steady") == document.value("step_time")
    kept = next(m for m in document.metrics if (m.metric, m.statistic) == ("step_time", "median"))
    number = numbers.number("step_time", "median", "steady")
    assert number is not None
    assert (number.ci_low, number.ci_high) == (kept.ci_low, kept.ci_high) != (None, None)


def test_a_planned_trial_without_a_document_is_missing(sample: CampaignData) -> None:
    absent = [t for t in campaign_numbers(sample) if t.status == "missing"]
    assert [(t.provider, t.workload, t.repeat, t.metrics) for t in absent] == [("local-2core", "chat-tiny-cpu", 3, ())]


def test_a_rejected_attempt_is_never_usable(sample: CampaignData) -> None:
    document = sample.documents[0]
    rejected = sample_of(document, CampaignQuality("reject", ("p99_below_p50: impossible",)))
    assert (rejected.status, rejected.usable) == ("invalid", False)
    assert rejected.reasons == ("p99_below_p50: impossible",)
    annotated = sample_of(document, CampaignQuality("annotate", ("few_requests: 12",)))
    assert (annotated.status, annotated.usable) == ("degraded", True)
    assert sample_of(document, CampaignQuality("accept")).status == "valid"


def test_the_time_that_the_provider_was_held_is_the_launchers(sample: CampaignData) -> None:
    document = sample.documents[0]
    assert document.launch is not None
    held = held_seconds(document)
    assert held == pytest.approx(21.0)
    without = document.model_copy(update={"launch": None})
    assert held_seconds(without) == pytest.approx(21.0 - 3)
    assert held_seconds(without.model_copy(update={"timeline": document.timeline[:1]})) is None


def test_waiting_in_the_queue_is_not_paid_for(sample: CampaignData) -> None:
    document = sample.documents[0]
    assert document.launch is not None
    first = document.launch.events[0]
    queued = first.model_copy(update={"name": "queued", "monotonic_s": (first.monotonic_s or 0.0) - 500})
    launch = document.launch.model_copy(update={"events": (queued, *document.launch.events)})
    assert held_seconds(document.with_launch(launch)) == pytest.approx(21.0)


def test_wall_clock_serves_where_a_monotonic_one_is_absent(sample: CampaignData) -> None:
    document = sample.documents[0]
    events = tuple(e.model_copy(update={"monotonic_s": None}) for e in document.timeline)
    assert held_seconds(document.model_copy(update={"launch": None, "timeline": events})) == pytest.approx(18.0)


def test_epochs_are_those_of_the_declared_data(sample: CampaignData) -> None:
    sizes = {w.name: w.epoch_size for d in sample.documents if isinstance(w := d.trial.workload, TrainingWorkload)}
    assert sizes == {"gpt-tiny-cpu": 262144}
    epochs = {t.workload for t in conclude(sample).trials if t.value("cost_per_epoch", "value", "steady") is not None}
    assert epochs == {"gpt-tiny-cpu"}


def test_the_sample_itself_is_sound(sample: CampaignData, tmp_path: Path) -> None:
    assert sample.store is not None
    assert [problem for d in sample.documents for problem in damaged_files(sample.store, d)] == []


def test_a_pod_holds_its_node_from_the_moment_it_has_one(sample: CampaignData) -> None:
    def at(second: float, name: str) -> Event:
        return Event(name=name, utc=BEGAN + timedelta(seconds=second), clock="cluster")

    waited = (at(0, "requested"), at(600, "scheduled"), at(620, "started"), at(700, "finished"), at(705, "deleted"))
    late = (at(0, "requested"), at(610, "scheduled"), at(705, "deleted"))
    nowhere = (at(0, "requested"), at(705, "deleted"))

    def held(*timelines: tuple[Event, ...]) -> float | None:
        pods = tuple(PodRecord(name=f"p-{rank}", rank=rank, events=events) for rank, events in enumerate(timelines))
        return held_seconds(sample.documents[0].with_launch(LaunchRecord(launcher="kubernetes", events=waited, pods=pods)))

    assert held(waited) == 105.0
    assert held(waited, late) == 200.0, "two nodes are paid for"
    assert held(waited, nowhere) == 105.0
    assert held(nowhere) is None, "a queue holds nothing"
    stuck = (at(0, "requested"), at(610, "scheduled"), at(615, "image_pulling"))
    assert held(stuck) == 95.0, "until the launch was deleted"


@pytest.mark.parametrize(("accelerator", "held_s"), [(CPU, 100.0 + 210.0), (H100, 210.0)])
def test_the_servers_of_a_deployment_hold_nodes_too(sample: CampaignData, accelerator: dict[str, Any], held_s: float) -> None:
    """A server for 120 s, and a second one from the 30th second, when it is asked for; the pod that sends the load for 100 s."""

    def at(second: float, name: str, clock: Literal["cluster", "launcher"] = "cluster") -> Event:
        return Event(name=name, utc=BEGAN + timedelta(seconds=second), clock=clock)

    counts = [(0, 0, 1), (10, 1, 1), (30, 1, 2), (50, 2, 2), (110, 2, 1)]
    document, pod = sample.documents[0], PodRecord(name="p", rank=0, events=(at(0, "scheduled"), at(100, "finished")))
    launch = LaunchRecord(
        launcher="kubernetes",
        events=(at(120, "deleted", "launcher"),),
        pods=(pod,),
        replicas=tuple(ReplicaCount(at=BEGAN.timestamp() + s, ready=ready, wanted=wanted) for s, ready, wanted in counts),
    )
    trial = document.trial.model_copy(update={"provider": cluster_provider(accelerator=accelerator)})
    assert held_seconds(document.model_copy(update={"trial": trial, "launch": launch})) == pytest.approx(held_s)


def test_conditions_are_what_was_asked_and_how_it_was_measured(sample: CampaignData) -> None:
    document = sample.documents[0]
    told = sample_of(document).conditions
    assert told is not None
    assert (told.source, told.protocol, told.engine) == ("measured", f"h{HARNESS_PROTOCOL['training']}", "torch")
    fields = dict(told.asked)
    assert isinstance(document.trial.workload, TrainingWorkload)
    assert fields["precision"] == document.trial.workload.precision
    assert "acceptance" not in fields and "repeats.per_slot" not in fields, "criteria and repeats change nothing that is measured"
