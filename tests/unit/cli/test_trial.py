"""`plumbline trial` and `replay` refuse what cannot run before anything starts."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy.exc import OperationalError
from tests.data import result_documents
from tests.data.result_documents import provider
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive, open_archive
from plumbline.cli import trial
from plumbline.declarations import load
from plumbline.results import Curve, Environment, Event, Point, Reason, ResultDocument, Validity, metric_row


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("trial", "no-such", "--provider", "local-1core"), "no-such"),
        (("trial", "gpt-tiny-cpu", "--provider", "nowhere"), "nowhere"),
        (("trial", "inference/gpt-tiny-cpu", "--provider", "local-1core"), "training/gpt-tiny-cpu"),
        (("trial", "gpt-tiny-cpu", "--provider", "example-eks-p5"), "example-eks-p5"),
        (("replay", "no-such-trial"), "no-such-trial"),
    ],
)
def test_what_cannot_run_is_said_in_a_sentence(plumbline, home, words, told, campaigns):
    campaigns(first=[0.1])
    result = plumbline(*words)
    assert result.exit_code == 2
    assert told in result.stderr and "Traceback" not in result.stderr
    assert not (home / "results").exists()


def test_local_is_the_largest_provider_that_this_machine_has_the_cores_for(monkeypatch):
    declared = load(CONFIG)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2})
    assert trial._local(declared, "gpt-tiny-cpu") == "local-2core"
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert trial._local(declared, "gpt-tiny-cpu") == "local-1core"


def test_local_is_a_provider_that_the_workload_fits(monkeypatch):
    declared = load(CONFIG)
    cores = declared.providers["local-2core"]
    gpus = cores.accelerator.model_copy(update={"kind": "nvidia", "count": 8})
    declared.providers["local-gpu"] = cores.model_copy(update={"name": "local-gpu", "accelerator": gpus})
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert trial._local(declared, "gpt-tiny-cpu") == "local-2core"
    assert trial._local(declared, "gpt-small-gpu") == "local-gpu"


def test_local_without_a_local_provider_is_refused(tmp_path, plumbline, home, monkeypatch):
    shutil.copytree(CONFIG, tmp_path / "config")
    for name in ("local-1core", "local-2core"):
        file = tmp_path / "config" / "providers" / f"{name}.yaml"
        file.write_text(file.read_text() + "enabled: false\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    result = plumbline("trial", "embedding-cpu", "--provider", "local")
    assert result.exit_code == 2 and "local-1core" in result.stderr


def test_a_trial_that_the_budget_does_not_carry_is_not_started(tmp_path, plumbline, home, monkeypatch):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "local-1core.yaml"
    file.write_text(file.read_text() + "budget: {usd_per_month: 0.000001}\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    result = plumbline("trial", "gpt-tiny-cpu", "--provider", "local-1core")
    assert result.exit_code == 2
    assert "local-1core: 1 of 1" in result.stderr and "nothing was started" in result.stderr
    assert not (home / "results").exists()
    recorded = result_documents.document(result_documents.trial(where=provider("local-1core")))
    with open_archive() as archive:
        archive.record(recorded, uri="file:///nowhere")
    again = plumbline("replay", recorded.trial.trial_id)
    assert again.exit_code == 2 and "local-1core: 1 of 1" in again.stderr, "a replay holds the provider too"


class Launches:
    """A launcher that writes the document of a trial that was measured before its time: the archive's checks reject it."""

    def __init__(self, ended):
        self.launched, self._ended = [], ended

    def launch(self, trial, store, on_progress=None):
        self.launched.append(trial)
        store.put_trial(trial)
        ended = Event(name="finished", utc=datetime.now(timezone.utc) + self._ended)
        store.put_document(
            ResultDocument.sealed(
                trial=trial,
                harness_version="0.1.0",
                environment=Environment.of(result_documents.FACTS),
                validity=Validity(status="valid"),
                timeline=(ended,),
                metrics=result_documents.believed_training_metrics(),
            )
        )


@pytest.mark.fault("a clock steps back while a trial is measured", ends="rejected, exit code 1", keeps="the document")
@pytest.mark.parametrize("days", [0, 30])
def test_a_trial_that_the_archive_rejects_says_so(plumbline, home, monkeypatch, days):
    launches = Launches(timedelta(days=days))
    monkeypatch.setattr("plumbline.workflows.run.launcher_for", lambda provider: launches)
    result = plumbline("trial", "gpt-tiny-cpu", "--provider", "local-1core")
    assert ("rejected by the archive" in result.output) == bool(days), result.output
    assert result.exit_code == (1 if days else 0), result.output


@pytest.mark.fault(
    "the archive cannot be written while a trial is asked for", ends="one sentence, exit code 1", keeps="the machine: nothing is measured"
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_archive_that_fails_ends_in_a_sentence_that_names_the_campaign(plumbline, home, monkeypatch, when):
    launches = Launches(timedelta())
    monkeypatch.setattr("plumbline.workflows.run.launcher_for", lambda provider: launches)
    with monkeypatch.context() as failing:

        def fails(*arguments, **named):
            raise OperationalError("INSERT", {}, Exception("attempt to write a readonly database"))

        failing.setattr(Archive, "check_writable" if when == "before" else "record", fails)
        result = plumbline("trial", "gpt-tiny-cpu", "--provider", "local-1core")
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert len(launches.launched) == (when == "after")
    said = " ".join(result.stderr.split())
    assert "attempt to write a readonly database" in said
    assert ("nothing was measured" in said, "plumbline archive collect trial-" in said) == (when == "before", when == "after")
    if when == "after":
        collected = plumbline("archive", "collect", launches.launched[0].campaign_id)
        assert collected.exit_code == 0, collected.output
        with open_archive() as archive:
            assert [t.usable for t in archive.trials()] == [True], "in an archive that was empty"


def test_curves_are_shown_by_their_places():
    points = tuple(Point(at=at, value=value, n=8) for at, value in ((128, 0.01), (2048, None)))
    curve = Curve(phase="context", along="input_tokens", metric="prefill_time", statistic="mean", unit="s", points=points)
    document = result_documents.document(result_documents.trial("inference"), curves=(curve,))
    with trial.out.capture() as shown:
        trial.show(document)
    lines = [line.split() for line in shown.get().splitlines() if "context" in line or "by input tokens" in line]
    assert lines == [["phase", "by", "input", "tokens", "128", "2,048"], ["context", "prefill", "time", "mean", "10.0", "ms", "–"]]


def test_a_trial_s_own_criteria_are_judged_and_its_warm_up_is_not_shown():
    criteria = ["error_rate <= 1% in steady", "request_throughput >= 50/s in steady", "goodput >= 1/s in steady"]
    asked = result_documents.trial(workload=result_documents.inference_workload(acceptance=criteria))
    steady = [metric_row("error_rate", 0.0, 400, ci=(0.0, 0.0095)), metric_row("request_throughput", 5.0, 400)]
    document = result_documents.document(asked, metrics=[metric_row("error_rate", 0.25, 80, phase="warmup"), *steady])
    lines = shown(document, everything=True)
    found = [line.split() for line in lines if " in steady" in line]
    assert [line[: 6 + (line[5] != "insufficient")] for line in found] == [
        ["error_rate", "<=", "1%", "in", "steady", "pass", "0"],
        ["request_throughput", ">=", "50/s", "in", "steady", "fail", "5.00/s"],
        ["goodput", ">=", "1/s", "in", "steady", "insufficient"],
    ]
    assert found[2][-6:] == ["the", "trial", "did", "not", "measure", "it"]
    assert not any(line.split()[:3] == ["warmup", "error", "rate"] for line in lines)
    assert any("warmup: not shown" in line for line in lines)


def test_a_relative_criterion_is_shown_with_its_limit_or_as_undecided(monkeypatch):
    monkeypatch.setattr(trial.out, "_width", 400)
    declared = "step_time within 10% of baseline in steady"
    workload = result_documents.training_workload(acceptance=[declared])
    document = result_documents.document(result_documents.trial(workload=workload))
    limited = workload.acceptance[0].limited_by(0.09, "the baseline 2025-10")
    (met,) = (line for line in shown(document, resolved={declared: limited}) if declared in line)
    assert "-1 % from the limit: step_time <= 99.0 ms in steady (within 10 % of 90.0 ms, the baseline 2025-10)" in met.replace("−", "-")
    (undecided,) = (line for line in shown(document) if declared in line)
    assert "insufficient" in undecided and "no baseline yet" in undecided


def test_an_unusable_trial_s_criteria_are_not_judged():
    asked = result_documents.trial(workload=result_documents.inference_workload(acceptance=["error_rate <= 1% in steady"]))
    reasons = (Reason(code="out_of_memory", detail="held too much"), Reason(code="interrupted", detail="asked to stop"))
    failed = Validity(status="failed", failure_class="out_of_memory", reasons=reasons)
    lines = [line.strip() for line in shown(result_documents.document(asked, validity=failed, metrics=[]))]
    assert lines[1:4] == [
        "out_of_memory: held too much",
        "interrupted: asked to stop",
        "its 1 acceptance criteria are not judged: a trial that is failed proves nothing",
    ]
    assert not any("error_rate" in line for line in lines)


def test_a_trial_that_got_no_further_than_its_warm_up_shows_it():
    lines = shown(
        result_documents.document(result_documents.trial("inference"), metrics=[metric_row("error_rate", 1.0, 80, phase="warmup")])
    )
    assert any(line.split()[:4] == ["warmup", "error", "rate", "100"] for line in lines)
    assert not any("not shown" in line for line in lines)


def shown(document, everything=False, resolved=None):
    with trial.out.capture() as captured:
        trial.show(document, everything, resolved)
    return captured.get().splitlines()


def test_leading_metrics_come_first_and_the_rest_is_counted():
    rows = [
        metric_row("goodput", 6.0, 40, phase="stress"),
        metric_row("goodput", 5.0, 40),
        *(metric_row("time_to_first_token", value, 40, statistic=name) for name, value in (("p50", 0.01), ("p90", 0.02), ("p99", 0.03))),
        metric_row("queue_time", 0.001, 40, statistic="mean"),
        metric_row("disk_read_bandwidth", 1e9, 3, phase="environment", statistic="median"),
    ]
    document = result_documents.document(result_documents.trial("inference"), metrics=rows)
    lines = [" ".join(line.split()) for line in shown(document)]
    assert [line for line in lines if "time to first token" in line] == ["p50 time to first token 10.0 ms p99 30.0 ms"]
    assert [line.split()[:2] for line in lines if "goodput" in line] == [["goodput", "5.00/s"]]
    assert not any("queue time" in line or "disk read" in line for line in lines)
    assert any(line.startswith("3 more metrics") for line in lines)
    everything = " ".join(shown(document, everything=True))
    assert "queue time" in everything and "disk read bandwidth" in everything and "more metrics" not in everything
