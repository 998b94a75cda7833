"""`plumbline cost trial` and `cost campaign`."""

from __future__ import annotations

import re

import pytest
from tests.data.result_documents import document, failed, inference_workload, provider, trial

from plumbline.archive import open_archive
from plumbline.launch.simulated.launcher import simulate

PRICE = {"purchase": "on_demand", "price": "3.60 USD/h", "since": "2025-01-01", "source": "price page of January"}


@pytest.fixture
def recorded(home) -> str:
    """A campaign of two finished trials and a failed one; the first one's id."""
    where = provider(prices=[PRICE])
    with open_archive() as archive:
        for repeat in (1, 2):
            asked = trial("inference", repeat=repeat, where=where)
            archive.record(document(asked), uri=f"file:///{asked.trial_id}")
        archive.record(failed(trial("inference", repeat=3, where=where)), uri="file:///3")
    return trial("inference", where=where).trial_id


def test_each_line_of_a_trial_is_shown_with_its_source(recorded, plumbline):
    said = plumbline("cost", "trial", recorded)
    assert said.exit_code == 0
    for words in ("3.6", "price page of January", "2025-01-01", "list", "at least", "cost per good request"):
        assert words in said.stdout
    assert "egress" not in said.stdout  # nothing left this machine
    assert re.search(r"^ *observability\b.*lab-2core", said.stdout, re.MULTILINE)


def test_a_trial_as_json_says_what_is_unknown(recorded, said):
    found, code = said("cost", "trial", recorded)
    assert code == 0 and found["simulated"] is False and found["complete"] is False
    # 40 s at 3.60 USD/h.
    assert found["by_item"]["cpu"]["amount"] == pytest.approx(0.04, abs=1e-8)
    line = found["lines"][0]
    assert (line["basis"], line["unit_price"]["per"], line["since"]) == ("list", "instance-hour", "2025-01-01")
    assert {each["item"] for each in found["unknown"]} >= {"storage", "engineering"}
    per_token = next(each for each in found["outcomes"] if each["metric"] == "cost_per_1m_output_tokens_at_offered_rate")
    assert per_token["value"] == pytest.approx(3.6 / 3600 * 1e6 / 46)


def test_another_way_to_pay_and_another_day_are_other_prices(recorded, said):
    found, _ = said("cost", "trial", recorded, "--purchase", "spot")
    assert found["total"] is None and "no spot price" in found["unknown"][0]["reason"]
    found, _ = said("cost", "trial", recorded, "--on", "2024-12-31")
    assert found["total"] is None and "holds on 2024-12-31" in found["unknown"][0]["reason"]


GPUS = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}
NODE = {"launcher": {"kind": "simulated", "seed": 1}, "accelerator": GPUS, "prices": [PRICE | {"price": "80 USD/h"}]}


def cost_of_one_gpu(home, sold_by: str) -> str:
    asked = trial("inference", where=provider(**NODE, sold_by=sold_by), workload=inference_workload(needs={"accelerator": "nvidia"}))
    with open_archive() as archive:
        archive.record(simulate(asked), uri="file:///1")
    return asked.trial_id


def test_one_gpu_of_eight_is_paid_whole_and_its_outcomes_cost_an_eighth_of_the_node(home, said, plumbline):
    trial_id = cost_of_one_gpu(home, "instance")
    found, _ = said("cost", "trial", trial_id)
    outcomes = {each["metric"]: each for each in found["outcomes"]}
    with open_archive() as archive:
        document = archive.document(trial_id)
    rate = document.value("output_token_throughput", "value")
    assert outcomes["cost_per_1m_output_tokens_at_offered_rate"]["value"] == pytest.approx(80 / 8 / 3600 * 1e6 / rate)
    assert outcomes["cost_per_1m_output_tokens_at_offered_rate"]["basis"]["share"] == {"gpus": 1, "of": 8, "assumed": True}
    assert outcomes["cost_per_run"]["basis"]["share"] is None
    assert found["paid"]["amount"] == pytest.approx(8 * found["share"]["amount"])
    billed = sum(line["cost"]["amount"] for line in found["lines"] if line["unit_price"]["per"] == "instance-hour")
    assert billed == pytest.approx(outcomes["cost_per_run"]["value"], abs=1e-6) == found["paid"]["amount"]
    assert found["caveats"] == ["other_gpus_alike"]
    shown = " ".join(plumbline("cost", "trial", trial_id).stdout.split())
    assert "80 USD/h" in shown and "1/8" in shown and "used alike" in shown


def test_a_node_that_is_filled_is_charged_whole_and_assumes_nothing(home, said, plumbline):
    needs = {"accelerator": "nvidia"}
    alone = trial("inference", where=provider(**NODE), workload=inference_workload(needs=needs))
    asked = trial("inference", where=provider(**NODE), workload=inference_workload(name="chat-node", needs=needs, replicas="fill"))
    with open_archive() as archive:
        for each in (alone, asked):
            archive.record(simulate(each), uri=f"file:///{each.workload.name}")
    filled, part = (said("cost", "trial", each.trial_id)[0] for each in (asked, alone))
    assert filled["caveats"] == [] and part["caveats"] == ["other_gpus_alike"]
    rate = "cost_per_1m_output_tokens_at_offered_rate"
    hourly = [next(each["basis"] for each in found["outcomes"] if each["metric"] == rate) for found in (filled, part)]
    assert [basis["usd_per_hour"] for basis in hourly] == [80, 10] and hourly[0]["share"] is None
    shown = " ".join(plumbline("cost", "trial", asked.trial_id).stdout.split())
    assert "80 USD/h ×" in shown and "1/8" not in shown and "used alike" not in shown


def test_a_campaign_says_what_came_to_nothing_and_what_a_finished_run_cost(recorded, plumbline, said):
    found, code = said("cost", "campaign", "2025-11")
    (place,) = found["providers"]
    assert code == 0 and (place["trials"], place["finished"], place["lost"]) == (3, 2, 1)
    assert place["per_finished_run"]["amount"] == pytest.approx(0.04, abs=1e-8)
    assert any(each["item"] == "failed_launches" for each in place["unknown"])  # nobody saw its launch
    shown = plumbline("cost", "campaign").stdout
    assert "per finished run" in shown
    assert shown.count("≥ 0.0") == 2  # what is not in the total is in no run's share of it either


def test_the_bills_of_a_campaign_have_a_sum(home, plumbline, said):
    with open_archive() as archive:
        for name in ("lab-2core", "lab-4core"):
            archive.record(document(trial("inference", where=provider(name, prices=[PRICE]))), uri=f"file:///{name}")
    found, _ = said("cost", "campaign")
    (total,) = found["sums"]
    assert (total["provider"], total["kind"], total["trials"]) == ("total", "", 2)
    assert total["paid"]["amount"] == pytest.approx(sum(place["paid"]["amount"] for place in found["providers"])) == pytest.approx(0.08)
    row = next(line for line in plumbline("cost", "campaign").stdout.splitlines() if line.strip().startswith("total "))
    assert row.count("0.08") == 4, "the item, paid, share and total"


def test_what_was_not_run_has_no_bill(recorded, plumbline):
    for words, said in (
        (("trial", "nothing"), 'the archive has no trial "nothing"'),
        (("campaign", "2020-01"), 'campaign "2020-01"'),
        (("trial", recorded, "--purchase", "gift"), "Invalid value for '--purchase'"),
        (("trial", recorded, "--on", "tomorrow"), '--on "tomorrow" is not a day; expected one such as 2026-11-21'),
    ):
        result = plumbline("cost", *words)
        assert result.exit_code == 2 and said in result.stderr
