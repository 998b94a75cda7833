"""`plumbline compare` of campaigns, providers and trials, on an archive of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.data.result_documents import document, inference_workload, provider, training_metrics, training_workload, trial

from plumbline.archive import open_archive

SAME = [0.100, 0.101, 0.099, 0.1005, 0.0995]
SLOWER = [t * 1.5 for t in SAME]
EXCERPT = str(Path(__file__).parents[2] / "data/mlperf/training_excerpt.csv")


def test_campaigns_that_measured_the_same_exit_0(campaigns, said):
    campaigns(before=SAME, after=[t * 1.001 for t in SAME])
    found, code = said("compare", "before", "after")
    assert code == 0
    assert found["verdict"] in ("unchanged", "insufficient_data")


def test_a_slower_campaign_exits_4_and_is_called_regressed(campaigns, said, plumbline):
    campaigns(before=SAME, after=SLOWER)
    found, code = said("compare", "before", "after")
    assert (found["verdict"], code) == ("regressed", 4)
    shown = plumbline("compare", "before", "after").stdout
    assert "step_time" in shown and "+50 %" in shown


def test_two_trials_are_compared_by_what_the_series_scatters(campaigns, said):
    campaigns(before=SAME, after=SAME[::-1])
    old, new = (trial(campaign=c, repeat=1).trial_id for c in ("before", "after"))
    found, code = said("compare", old, new)
    assert (found["verdict"], code) == ("unchanged", 0)


def test_a_name_that_is_not_there_is_said_and_nothing_runs(campaigns, plumbline):
    campaigns(before=SAME)
    result = plumbline("compare", "before", "nowhere")
    assert result.exit_code == 2
    assert '"nowhere"' in result.stderr and "plumbline campaigns" in result.stderr
    mixed = plumbline("compare", "before", "lab-2core")
    assert mixed.exit_code == 2 and "before" in mixed.stderr and "lab-2core" in mixed.stderr


def test_names_may_be_shortened_to_what_only_one_begins_with(campaigns, plumbline, said):
    campaigns(before=SAME, after=SLOWER, again=SLOWER)
    assert said("compare", "bef", "aft") == said("compare", "before", "after")
    # Of five trials that begin alike none is meant.
    assert plumbline("compare", trial(campaign="before", repeat=1).trial_id[:-1], "after").exit_code == 2
    several = plumbline("compare", "bef", "a")
    assert several.exit_code == 2 and "after and again" in several.stderr
    # A provider begins like nothing else here; beside a campaign it is refused by its whole name.
    mixed = plumbline("compare", "bef", "lab")
    assert mixed.exit_code == 2 and "before is a campaign and lab-2core a provider" in mixed.stderr


def test_the_driver_change_of_one_submitters_h200_shows_across_two_rounds(plumbline, said):
    assert plumbline("archive", "import-mlperf", EXCERPT).exit_code == 0
    found, code = said("compare", "mlperf-training-v4.1", "mlperf-training-v5.0", "--provider", "supermicro")
    assert (found["verdict"], code) == ("not judged", 0), "time to train scatters too much to be judged"
    (comparison,) = found["comparisons"]
    assert comparison["problems"] == [] and comparison["imported"]
    (row,) = comparison["rows"]
    assert row["metric"] == "time_to_train" and row["ci_low"] < row["effect"] < row["ci_high"] and row["verdict"] is None
    driver = next(c for c in comparison["environment_changes"] if c["key"] == "driver.version")
    assert (driver["old"], sorted(driver["new"]), driver["matters"]) == (["560.35.03"], ["560.35.03", "570.124.06"], True)
    assert (driver["trials"], driver["of_trials"]) == (10, 20)
    told = plumbline("compare", "mlperf-training-v4.1", "mlperf-training-v5.0").stdout
    assert "without blocks" in told
    assert "IMPORTED" in told and "driver 560.35.03 → " in told and "time_to_train" in told


def test_an_imported_trial_is_compared_with_another_one(plumbline, said):
    plumbline("archive", "import-mlperf", EXCERPT)
    with open_archive() as archive:
        old, new = (archive.trials(f"mlperf-training-{r}", provider="supermicro")[0].trial_id for r in ("v4.1", "v5.0"))
    found, code = said("compare", old, new)
    assert code == 0 and found["comparisons"][0]["problems"] == []
    assert {c["key"] for c in found["comparisons"][0]["environment_changes"]} >= {"driver.version", "host.product"}


def recorded(campaign, where, workload, time=0.1, simulated=False):
    with open_archive() as archive:
        for repeat in (1, 2, 3, 4, 5):
            asked = trial(campaign=campaign, repeat=repeat, where=where, workload=workload)
            metrics = training_metrics(time * (1 + 0.001 * repeat)) if workload.kind == "training" else None
            archive.record(document(asked, metrics=metrics, simulated=simulated), uri="file:///store")


def test_two_providers_are_compared_by_the_workloads_of_both(home, plumbline, said):
    here, there = provider(), provider("far-2core", region="there", instance_type="other-2core")
    for where, time in ((here, 0.1), (there, 0.2)):
        recorded("2025-11", where, training_workload(), time)
    recorded("2025-11", here, inference_workload())
    recorded("2025-12", here, training_workload(), 0.4)
    found, code = said("compare", "lab-2core", "far-2core")
    assert code == 0, "two providers differ, and that is no drift"
    (comparison,) = found["comparisons"]
    assert comparison["baseline_campaigns"] == ["2025-11"] == [comparison["candidate_campaign"]], "the newest one of both, not 2025-12"
    row = next(r for r in comparison["rows"] if (r["metric"], r["statistic"]) == ("step_time", "median"))
    assert row["effect"] == pytest.approx(1.0, abs=0.01) and row["verdict"] == "regressed"
    assert [key.split("/")[1] for key in found["only_in"]["old"]] == ["chat-test@1"] and found["only_in"]["new"] == []
    assert re.search(r"\b1\b[^\n]*lab-2core", plumbline("compare", "lab-2core", "far-2core").stdout)


def test_other_lengths_and_placements_of_an_inference_are_refused_together(home, said):
    longer = inference_workload(
        requests={"input_tokens": {"constant": 16}, "output_tokens": {"constant": 16}, "seed": 1},
        server={"backend": "python", "client_placement": "other_node"},
    )
    recorded("2025-11", provider(), inference_workload())
    recorded("2025-12", provider(), longer)
    (comparison,) = said("compare", "2025-11", "2025-12")[0]["comparisons"]
    told = " ".join(comparison["problems"])
    assert "requests.output_tokens" in told and "server.client_placement" in told


def test_filters_narrow_and_say_when_nothing_is_left(campaigns, plumbline, said):
    campaigns(before=SAME, after=SAME)
    assert said("compare", "before", "after", "--workload", "gpt-test", "--provider", "lab-2core")[1] == 0
    result = plumbline("compare", "before", "after", "--provider", "nobody")
    assert result.exit_code == 2 and "no series in common" in result.stderr
    old, new = (trial(campaign=c, repeat=1).trial_id for c in ("before", "after"))
    result = plumbline("compare", old, new, "--provider", "lab-2core")
    assert result.exit_code == 2 and "filter" in result.stderr
