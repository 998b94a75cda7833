"""`plumbline check`: all right, or every problem on standard error and nothing starts."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timezone

import pytest
from tests.fakes.trials import CONFIG

from plumbline.archive import open_archive
from plumbline.declarations import load
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.simulated.launcher import simulate


@pytest.fixture
def other(tmp_path):
    """other(file, old, new): the folder of the shipped declarations with one text replaced by another."""

    def change(file, old, new):
        folder = tmp_path / "config"
        if not folder.exists():
            shutil.copytree(CONFIG, folder)
        changed = (folder / file).read_text().replace(old, new)
        assert changed != (folder / file).read_text()
        (folder / file).write_text(changed)
        return str(folder)

    return change


def test_the_shipped_declarations_are_right(plumbline, said):
    found, code = said("check")
    assert code == 0 and found["ok"]
    assert {row["provider"] for row in found["would_run"] if row["trials"]} == {"local-1core", "local-2core"}
    assert "all right" in plumbline("check").stdout


@pytest.mark.fault("a declaration is broken", ends="refused", keeps="nothing starts; the message names file, line, field")
def test_a_broken_declaration_names_file_line_field_and_shape(tmp_path, plumbline, home):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("0.02 USD/h", "0.02"))
    result = plumbline("check", "--config", str(tmp_path / "config"))
    assert result.exit_code == 2
    assert re.search(r"local-1core\.yaml:9\s+prices\[0\]\.price:.*USD/h", result.stderr)
    assert not any(home.iterdir())


def test_on_demand_workloads_are_shown_and_not_counted(said):
    found, _ = said("check")
    assert all(row["trials"] == 0 for row in found["would_run"] if row["on_demand_only"])
    assert any(row["on_demand_only"] for row in found["would_run"])


@pytest.mark.parametrize(("patch", "code"), [("schedulerName: volcano", 0), ("affinity: {nodeAfinity: {}}", 2)])
def test_what_a_pod_patch_changes_is_shown_and_a_field_that_no_pod_has_is_refused(tmp_path, said, patch, code):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "example-oke-h100.yaml"
    file.write_text(file.read_text().replace("prices:", f"  pod_patch: {{spec: {{{patch}}}}}\nprices:", 1))
    found, exit_code = said("check", "--config", str(tmp_path / "config"))
    assert exit_code == code and found["ok"] == (code == 0)
    (field, *unknown) = [row for row in found["pod_patches"] if row["provider"] == "example-oke-h100"]
    assert field["field"].startswith(f"spec.{patch.partition(':')[0]}")
    assert [item["known"] for item in unknown] == [False] * (code // 2)


COREWEAVE = "providers/example-coreweave-h100.yaml"


def filled_in(other, provider):
    """The provider enabled, with a digest and with sources of its own."""
    other("defaults.yaml", 64 * "0", 64 * "a")
    other(provider, "an example, to be replaced", "price page of 2026-11-02")
    return other(provider, "enabled: false", "enabled: true")


@pytest.mark.fault("an enabled provider has an example's digest or price", ends="refused by plumbline check", keeps="nothing starts")
def test_values_of_the_examples_are_errors_of_an_enabled_provider_and_warnings_of_others(other, plumbline, said):
    found, code = said("check")
    mine = [one for one in found["placeholders"] if one["provider"] == "example-coreweave-h100"]
    assert code == 0 and not any(one["enabled"] for one in found["placeholders"])
    assert {"launcher.images.training", "launcher.images.inference", "prices[0].source"} <= {one["field"] for one in mine}
    assert "prices[0].source" in plumbline("check", "--all").stdout
    result = plumbline("check", "--config", other(COREWEAVE, "enabled: false", "enabled: true"))
    assert result.exit_code == 2 and "example-coreweave-h100: prices[0].source" in result.stderr
    found, code = said("check", "--config", filled_in(other, COREWEAVE.replace("coreweave-h100", "eks-p5")))
    assert [one["field"] for one in found["placeholders"] if one["provider"] == "example-eks-p5"] == []


def test_the_month_of_an_enabled_node_of_eight_gpus_is_told_with_its_node_hours_and_its_money(other, plumbline, said):
    config = filled_in(other, COREWEAVE)
    found, code = said("check", "--config", config)
    assert code == 0 and found["warnings"] == []
    month = next(m for m in found["months"] if m["provider"] == "example-coreweave-h100")
    assert month["enabled"] and month["trials"] == 21 and month["node_hours"] <= 4
    assert month["usd"] == pytest.approx(month["node_hours"] * 49.24) and "49.24 USD/h" in month["price"]
    own = [row for row in found["would_run"] if row["provider"] == month["provider"]]
    assert sum(row["trials"] for row in own) == 21
    assert sum(row["node_hours"] for row in own) == pytest.approx(month["node_hours"])
    assert {row["workload"] for row in own if row["trials"]} == {"chat-8b", "embedding-gpu", "pretrain-1b-gpu", "pretrain-8b-8gpu"}
    assert "example-coreweave-h100" in plumbline("check", "--config", config).stdout


def test_what_runs_is_printed_and_what_is_on_demand_counted_unless_all_is_asked_for(plumbline):
    short, everything = plumbline("check").stdout, plumbline("check", "--all").stdout
    assert "--all" in short and "chat-replay-cpu" not in short and "simulated-h100" not in short
    assert "--all" not in everything and "chat-replay-cpu" in everything and "simulated-h100" in everything


def test_a_price_that_no_one_declared_leaves_the_money_unknown(other, said):
    config = other("providers/local-1core.yaml", "  - {purchase: on_demand", "  - {purchase: reserved")
    found, _ = said("check", "--config", config)
    assert [(m["usd"], m["price"].partition(" is declared")[0]) for m in found["months"] if m["provider"] == "local-1core"] == [
        (None, "no on_demand price")
    ]


def test_a_team_that_decides_by_what_is_never_measured_is_warned(said):
    found, code = said("check")
    assert code == 0
    chat, pretraining = found["warnings"]
    assert "chat-8b" in chat and "pretrain-8b-8gpu" in pretraining
    assert all(team in chat for team in ("finance", "platform", "product"))


def test_a_team_that_weighs_a_cost_by_a_workload_without_a_sweep_is_warned(other, said):
    found, code = said("check", "--config", other("teams/finance.yaml", "workloads: [chat-tiny-cpu]", "workloads: [embedding-cpu]"))
    assert code == 0
    assert [w for w in found["warnings"] if "embedding-cpu" in w and "sweep" in w and "finance" in w]
    assert not [w for w in said("check")[0]["warnings"] if "sweep" in w]


def test_a_team_that_weighs_a_cost_by_a_closed_loop_is_warned_before_anything_runs(other, said):
    found, code = said("check", "--config", other("teams/finance.yaml", "workloads: [chat-tiny-cpu]", "workloads: [batch-cpu]"))
    assert code == 0
    (warning,) = [w for w in found["warnings"] if "batch-cpu" in w and "no sweep" in w]
    assert "finance" in warning and "name: sweep" in warning
    sweep = "  - {name: sweep, search: {goodput: 95%, between: [1/s, 8/s], probe: 10s, tolerance: 10%, at_most: 4}}\n"
    swept = other("workloads/inference/batch-cpu.yaml", "request_timeout: 60s\n", f"{sweep}request_timeout: 60s\n")
    assert not [w for w in said("check", "--config", swept)[0]["warnings"] if "cannot tell" in w]


def test_an_enabled_provider_that_would_measure_nothing_is_warned_and_one_that_names_its_workloads_is_not(other, said):
    hosted = "providers/example-runpod-endpoint.yaml"
    config = other(hosted, "enabled: false", "enabled: true")
    found, _ = said("check", "--config", config)
    (warning,) = [w for w in found["warnings"] if "example-runpod-endpoint" in w]
    assert "chat-hosted" in warning
    config = other(hosted, "enabled: true", "enabled: true\nworkloads: [chat-hosted]")
    found, _ = said("check", "--config", config)
    assert not [w for w in found["warnings"] if "example-runpod-endpoint" in w]
    assert next(m for m in found["months"] if m["provider"] == "example-runpod-endpoint")["trials"] == 4


def test_what_part_of_a_node_each_workload_is_charged_is_shown(other, plumbline, said):
    config = other("providers/simulated-h100.yaml", "enabled: false", "enabled: true\nworkloads: [embedding-gpu, embedding-node-gpu]")
    found, code = said("check", "--config", config)
    rows = {row["workload"]: row for row in found["would_run"] if row["provider"] == "simulated-h100"}
    part, whole = rows["embedding-gpu"], rows["embedding-node-gpu"]
    assert code == 0 and (part["servers"], whole["servers"]) == (1, 8)
    assert part["charged"].startswith("1 of 8 GPUs") and part["caveats"] == ["other_gpus_alike"]
    assert whole["charged"].startswith("the whole node") and whole["caveats"] == []
    shown = plumbline("check", "--config", config).stdout.splitlines()
    charged = [line.rpartition(": ")[2] for line in shown if line.startswith("charged")]
    assert charged == ["embedding-gpu", "chat-tiny-cpu", "embedding-node-gpu"], "the local providers have a server on each core"
    alone = [line.rpartition(": ")[2] for line in plumbline("check").stdout.splitlines() if line.startswith("charged")]
    assert alone == ["chat-tiny-cpu"]


def test_of_a_script_is_shown_what_its_steps_are_read_from_and_warned_of_what_is_not_measured(tmp_path, plumbline, said):
    config = tmp_path / "config"
    shutil.copytree(CONFIG, config)
    samples = CONFIG.parents[1] / "docs" / "samples"
    shutil.copytree(samples / "trainer", config / "scripts" / "trainer")
    file = config / "workloads" / "training" / "trainer.yaml"
    file.write_text((samples / "trainer.yaml").read_text())
    found, code = said("check", "--config", str(config))
    assert code == 0 and not any("trainer" in warning for warning in found["warnings"])
    assert "steps are read from lines that match ^step (?P<step>\\d+)" in plumbline("check", "--config", str(config)).stdout
    whole = file.read_text()
    file.write_text(whole.replace("  report:", "  data: {from: s3://sets/words, size: 900TB}\n  report:"))
    shown = plumbline("check", "--all", "--config", str(config)).stdout
    assert "data is fetched before the command starts from s3://sets/words (819 TiB): trainer" in " ".join(shown.split())
    found, _ = said("check", "--config", str(config))
    assert any(re.search("trainer fetches its data on .*GiB free, but the trial needs", warning) for warning in found["warnings"])
    file.write_text(whole.replace("  report:", "  data: {from: s3://sets/words}\n  report:"))
    found, _ = said("check", "--config", str(config))
    assert any("trainer declares no task.data.size" in warning for warning in found["warnings"])
    file.write_text(whole)
    text = re.sub(r"(?m)^(work|fault|  checkpoints|  resume_arguments):.*\n", "", file.read_text())
    file.write_text(text.replace("files: {source: folder, path: trainer}", "folder: /nowhere"))
    found, code = said("check", "--config", str(config))
    warned = [warning for warning in found["warnings"] if warning.startswith("trainer ")]
    assert code == 0 and len(warned) == 3
    for warning, part in zip(
        warned, ("declares no task.checkpoints", "has no token count", "starts in /nowhere, which this machine lacks"), strict=True
    ):
        assert part in warning


CONTAINER = """\
kind: training
name: box
version: 1
needs: {accelerator: cpu}
primary: hatch_rate in steady
on_demand_only: true
task:
  kind: container
  command: [box]
  results: {format: jsonl}
  metrics:
    hatch_rate: {unit: 1/s, better: higher}
repeats: {per_slot: 1, slots: ["02:00"]}
"""


def test_a_metric_that_the_archive_has_in_another_unit_is_refused(home, tmp_path, plumbline, said):
    shutil.copytree(CONFIG, tmp_path / "config")
    config = tmp_path / "config"
    file = config / "workloads" / "training" / "box.yaml"
    file.write_text(CONTAINER)
    declared = load(config)
    now = datetime(2026, 11, 1, 2, tzinfo=timezone.utc)
    request = RunRequest("2026-11", "a test", workloads=("box",))
    (trial, *_) = plan(declared, declared.providers["simulated-2core"], request, now)
    with open_archive() as archive:
        archive.record(simulate(trial), uri="file:///nowhere")
    assert said("check", "--config", str(config))[0]["metric_conflicts"] == []
    file.write_text(CONTAINER.replace("1/s", "bytes/s").replace("version: 1", "version: 2"))
    found, code = said("check", "--config", str(config))
    assert (code, found["ok"]) == (2, False)
    (conflict,) = found["metric_conflicts"]
    assert conflict.startswith(
        "box: hatch_rate is in bytes/s, higher_is_better; expected 1/s, higher_is_better, as the archive holds it of training/box@1/"
    )
    assert "not all right" in plumbline("check", "--config", str(config)).stdout
