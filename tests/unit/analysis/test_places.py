"""Round trips and first tokens by the client's place, reads by the data's, as pages and command lines show them."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.data.result_documents import document, failed, inference_metrics, inference_workload, provider, training_metrics, trial
from tests.unit.declarations.workloads.test_script import changed

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.declarations import Provider
from plumbline.presentation.html.report import report_context, report_templates
from plumbline.presentation.places import place_tables
from plumbline.results import ResultDocument, metric_row


def endpoint(name: str, machine: str) -> Provider:
    launcher = {"kind": "endpoint", "url": "https://api.example.com/v1", "protocol": "openai", "model": "m", "machine": machine}
    return provider(name, cloud="host", region="there", launcher=launcher)


FAR, FARTHER, BESIDE = endpoint("far", "client-eu"), endpoint("farther", "client-us"), provider("beside", cloud="aws", region="us-east-1")
HOSTED = inference_workload(name="chat", server={"backend": "external", "client_placement": "other_region"})


def answered(where: Provider, trip_s: float | None, first_s: float, repeat: int = 1) -> ResultDocument:
    rows = [row for row in inference_metrics() if (row.metric, row.statistic) != ("time_to_first_token", "p50")]
    rows += [metric_row("time_to_first_token", first_s, 60, statistic="p50"), metric_row("network_round_trip_time", trip_s, 40)]
    workload = HOSTED if where.launcher.hosted else inference_workload(name="chat")
    return document(trial("inference", where=where, workload=workload, repeat=repeat), metrics=rows)


def concluded(*documents: ResultDocument) -> Conclusions:
    providers = {d.trial.provider.name: d.trial.provider for d in documents}
    return conclude(CampaignData("2025-11", "a test", documents, providers, {}, datetime(2025, 11, 2, tzinfo=timezone.utc)))


def test_each_pair_of_places_has_its_medians_and_a_missing_one_stays_missing() -> None:
    repeats = [answered(FAR, trip, first, n) for n, (trip, first) in enumerate([(0.08, 0.3), (0.09, 0.5), (0.1, 0.4)], start=1)]
    found = concluded(*repeats, answered(FARTHER, 0.16, 0.45), answered(BESIDE, 0.0005, 0.2), failed(trial("inference", where=BESIDE)))
    (matrix,) = found.places
    assert (matrix.workload, matrix.rows, matrix.columns) == (
        "chat",
        ("aws us-east-1", "client-eu", "client-us"),
        ("beside", "far", "farther"),
    )
    assert set(matrix.cells) == {("client-eu", "far"), ("client-us", "farther"), ("aws us-east-1", "beside")}
    trip, first = matrix.cells["client-eu", "far"]
    assert (trip.value, first.value, first.low, first.high, first.n) == (0.09, 0.4, 0.3, 0.5, 3)
    (table,) = place_tables(found.places)
    assert dict(table.rows)["client-eu"] == ("–", "90.00 ms · 400 ms (300 … 500)", "–")
    page = report_templates().get_template("sections/places.html.j2").render(report_context(found))
    assert "90.00 ms · 400 ms (300 … 500)" in page and "client-us" in page


def test_without_a_round_trip_there_is_no_matrix() -> None:
    found = concluded(answered(FAR, None, 0.3), document(trial("training")))
    assert found.places == ()
    assert "places" not in report_templates().get_template("sections/places.html.j2").render(report_context(found))


def test_data_is_read_from_where_the_provider_has_it() -> None:
    workload = changed(data={"from": "s3://far/words", "name": "words"})
    reads = {"data_fetch_bandwidth": 5e7, "data_warm_read_bandwidth": 2e9}
    rows = [*training_metrics(), *(metric_row(name, value, 1, phase="cold_start") for name, value in reads.items())]
    near = provider("near", data_places={"words": "s3://near/words"})
    found = concluded(*(document(trial(workload=workload, where=where), metrics=rows) for where in (near, provider("remote"))))
    (table,) = place_tables(found.places)
    assert [(place, cells) for place, cells in table.rows] == [
        ("s3://far/words", ("–", "50.0 MB/s · 2.00 GB/s")),
        ("s3://near/words", ("50.0 MB/s · 2.00 GB/s", "–")),
    ]
