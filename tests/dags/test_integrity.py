"""The DAG files as Airflow reads them: whole, deterministic, light, and told clearly when a declaration is wrong."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.quick_python import search_path
from tests.fakes.trials import cluster_provider
from tests.source_trees import source_tree

from plumbline.embedded.doctor.dag_files import declared_dags

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "include" / "config"
FILES = sorted((ROOT / "dags").glob("*.py"))
FACTORIES = sorted((ROOT / "include" / "plumbline" / "airflow" / "dags").glob("[a-z]*.py"))
BANNED = ("airflow.models", "airflow.settings", "airflow.utils.session", "airflow.decorators", "airflow.operators", "airflow.hooks")


Parse = Callable[..., dict[str, Any]]
"""parse(home, config, team_server): what Airflow finds with these declarations."""


@contextmanager
def parser(home: Path, hash_seed: str) -> Iterator[Parse]:
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PLUMBLINE"))},
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT),
        "AIRFLOW__CORE__DAGBAG_IMPORT_ERROR_TRACEBACK_DEPTH": "0",
        "PYTHONPATH": search_path(ROOT / "include"),
        "PYTHONHASHSEED": hash_seed,
    }
    script = str(Path(__file__).with_name("parse_dags.py"))
    with subprocess.Popen([sys.executable, script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def parse(home: Path, config: Path = CONFIG, team_server: bool = False) -> dict[str, Any]:
            own = {"PLUMBLINE_HOME": str(home / "plumbline"), "PLUMBLINE_CONFIG": str(config)}
            print(json.dumps(own | ({"PLUMBLINE_TEAM_SERVER": "true"} if team_server else {})), file=asked, flush=True)
            # Airflow prints lines of its own.
            return json.loads(next(line for line in answers if line.startswith('{"errors"')))

        yield parse
        asked.close()  # which ends it


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parse]:
    with parser(tmp_path_factory.mktemp("airflow"), "0") as made:
        yield made


@pytest.fixture(scope="module")
def bundle(parse: Parse, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return parse(tmp_path_factory.mktemp("parse"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CONFIG, tmp_path / "config"))


@pytest.fixture(scope="module")
def changed(parse: Parse, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A team server whose local-1core has slots and a budget of its own and is not watched, with a cluster and a gang. Each parse takes
    seconds, so one shows all of them."""
    folder = tmp_path_factory.mktemp("changed")
    config = Path(shutil.copytree(CONFIG, folder / "config"))
    file = config / "providers" / "local-1core.yaml"
    file.write_text(file.read_text() + 'slots: ["18:30", "06:05"]\nwatch: {enabled: false}\nbudget: {usd_per_month: 12.5}\n')
    provider = json.loads(cluster_provider(parallel=3, retries=4).model_dump_json(exclude_none=True))
    (config / "providers" / "cluster-a.yaml").write_text(yaml.safe_dump(provider))
    gang = yaml.safe_load((config / "workloads" / "training" / "gpt-tiny-cpu.yaml").read_text())
    gang |= {"name": "gpt-gang", "parallelism": {"nodes": 2}}
    (config / "workloads" / "training" / "gpt-gang.yaml").write_text(yaml.safe_dump(gang))
    found = parse(folder, config, team_server=True)
    assert found["errors"] == {}
    return found


def test_imports_without_errors_and_parses_nothing_outside_dags(bundle: dict[str, Any]) -> None:
    assert bundle["errors"] == {}
    assert bundle["files"] == [str(f.relative_to(ROOT)) for f in FILES]
    assert {"benchmark_local_1core", "benchmark_local_2core", "drift_review", "baseline_decision", "scorecard_report"} <= set(
        bundle["dags"]
    )


def test_disabled_providers_have_no_dag(bundle: dict[str, Any]) -> None:
    assert not [d for d in bundle["dags"] if "example" in d]


def test_parsing_again_gives_the_same_bytes(bundle: dict[str, Any], tmp_path: Path) -> None:
    with parser(tmp_path, "12345") as parse:
        again = parse(tmp_path)
    assert {d: v["serialized"] for d, v in again["dags"].items()} == {d: v["serialized"] for d, v in bundle["dags"].items()}


def test_parsing_loads_nothing_heavy(bundle: dict[str, Any]) -> None:
    assert bundle["heavy"] == []


def test_every_dag_has_the_house_defaults(bundle: dict[str, Any]) -> None:
    for dag_id, dag in bundle["dags"].items():
        assert dag["owners"] == ["plumbline"], dag_id
        assert "When " in dag["doc"], f"{dag_id} does not say when it runs"
        assert "Triage " in dag["doc"], f"{dag_id} does not say what to do when it fails"
        assert (dag["catchup"], dag["start_date"]) == (False, None), dag_id
        # Runs of one DAG would measure each other; questions wait beside each other, each for its own person.
        assert (dag["max_active_runs"] == 1) == (dag_id != "baseline_decision"), dag_id
        for task_id, task in dag["tasks"].items():
            assert task["timeout_s"], f"{dag_id}.{task_id} could hang for ever"


def test_benchmarks_have_the_shape_of_the_house(bundle: dict[str, Any]) -> None:
    tasks = bundle["dags"]["benchmark_local_2core"]["tasks"]
    for kind in ("training", "inference"):
        assert tasks[f"{kind}.trial.run"]["upstream"] == [f"{kind}.plan"]
        assert tasks[f"{kind}.collect"]["upstream"] == [f"{kind}.plan", f"{kind}.trial.run"]
        assert tasks[f"{kind}.collect"]["rule"] == "all_done_min_one_success", "a trial that failed is collected too"
        assert f"{kind}.collect" in tasks[f"{kind}.validate"]["upstream"]
        assert tasks[f"{kind}.record"]["upstream"] == [f"{kind}.validate"]
    assert [t for t, v in tasks.items() if not v["downstream"]] == ["conclude"], "the DAG run's state is that of its one last task"
    ours = {f"{kind}.{step}" for kind in ("training", "inference") for step in ("plan", "collect", "record")} | {"publish"}
    assert ours <= set(tasks["conclude"]["upstream"])
    assert not [t for t in tasks["conclude"]["upstream"] if t.endswith(".run")], "a trial that fails is data, not a failure of ours"


def test_only_trials_run_in_the_machine_pool_and_airflow_waits_longer_than_the_launcher(bundle: dict[str, Any]) -> None:
    for name in ("benchmark_local_1core", "benchmark_local_2core"):
        for task_id, task in bundle["dags"][name]["tasks"].items():
            is_trial = task_id.endswith(".trial.run")
            assert task["pool"] == ("plumbline_this-machine" if is_trial else "default_pool"), task_id
            if is_trial:
                assert task["timeout_s"] > 600 + 3600, "the launcher's own timeout and its wait for the machine come first"


def test_benchmarks_run_monthly_in_the_declared_slots_and_when_their_own_provider_changed(
    bundle: dict[str, Any], changed: dict[str, Any]
) -> None:
    at_two, morning, evening = ["0 2 1 * *"], "5 6 1 * *", "30 18 1 * *"
    assert bundle["dags"]["benchmark_local_1core"]["crons"] == at_two
    assert bundle["dags"]["benchmark_local_1core"]["assets"] == ["provider_changed_local_1core"]
    assert changed["dags"]["benchmark_local_1core"]["crons"] == [morning, evening]
    assert changed["dags"]["benchmark_local_1core"]["assets"] == []
    assert changed["dags"]["benchmark_local_2core"]["crons"] == at_two
    assert changed["dags"]["benchmark_local_2core"]["assets"] == ["provider_changed_local_2core"]


def test_a_provider_that_cannot_be_looked_at_fails_the_run_and_silences_nobody(bundle: dict[str, Any]) -> None:
    tasks = bundle["dags"]["provider_watch"]["tasks"]
    assert tasks["watch.look"]["upstream"] == ["providers"]
    before = {up for task in tasks["watch.rerun"]["upstream"] for up in (task, *tasks[task]["upstream"])}
    assert "watch.look" in before, "nobody starts what nobody looked for"
    assert "watch.look" in tasks["watch.probe"]["upstream"] and "watch.probe" in tasks["watch.rerun"]["upstream"], "they share a machine"
    assert (tasks["alert"]["rule"], tasks["conclude"]["rule"]) == ("all_done", "none_failed")
    assert bundle["dags"]["upkeep"]["tasks"]["rerun"]["upstream"] == ["held"], "what is held back must not wait for the next day"
    for end in ("alert", "conclude"):
        assert {"watch.prices", "watch.rerun"} <= set(tasks[end]["upstream"]), "no price waits for a look, nor a look for a price"


def test_the_doctor_reads_from_the_files_what_airflow_reads(changed: dict[str, Any]) -> None:
    """A new DAG file is watched by being there."""
    parsed = {dag_id: dag["starts_unpaused"] for dag_id, dag in changed["dags"].items() if not dag_id.startswith("benchmark_")}
    assert declared_dags(ROOT / "dags") == parsed and parsed["availability_watch"] and not parsed["scorecard_report"]


def test_checks_of_uptime_wait_in_the_triggerer(bundle: dict[str, Any]) -> None:
    tasks = bundle["dags"]["availability_watch"]["tasks"]
    assert (tasks["checks"]["operator"], tasks["checks"]["upstream"]) == ("AvailabilityOperator", ["watched"])
    assert tasks["checks"]["timeout_s"] > 3600, "a run lasts until the next one"


def test_a_cluster_runs_its_trials_by_the_house_operators_and_waits_for_its_bucket(changed: dict[str, Any]) -> None:
    tasks = changed["dags"]["benchmark_cluster_a"]["tasks"]
    operators = {lane: tasks[f"{lane}.trial.run"]["operator"] for lane in ("training", "inference", "training_gang")}
    assert operators == {"training": "TrialPodOperator", "inference": "TrialPodOperator", "training_gang": "TrialGangOperator"}
    for lane in operators:
        run, collect = tasks[f"{lane}.trial.run"], tasks[f"{lane}.collect"]
        assert (run["pool"], run["retries"]) == ("plumbline_cluster-a", 4)
        assert run["timeout_s"] > 14400 + 2 * 1800, "the pod's own deadline and the waits before it come first"
        assert (collect["rule"], f"{lane}.trial.run" in collect["upstream"]) == ("all_done_min_one_success", True)
    assert "training_gang.trial.run" not in changed["dags"]["benchmark_local_2core"]["tasks"]
    assert changed["dags"]["benchmark_cluster_a"]["params"]["placement"]["schema"]["enum"] == ["any", "fresh_node", "each_node"]
    assert "placement" not in changed["dags"]["benchmark_local_2core"]["params"]


def test_an_acceptance_waits_in_the_triggerer_for_the_provider_s_benchmark(changed: dict[str, Any]) -> None:
    acceptance = changed["dags"]["acceptance"]
    assert acceptance["params"]["provider"]["schema"]["enum"] == ["cluster-a"], "nodes of a machine cannot be chosen"
    assert set(acceptance["tasks"]["sheet"]["upstream"]) == {"choose", "start"}


def test_a_broken_declaration_leaves_every_benchmark_and_is_an_import_error_in_its_own_words(
    parse: Parse, config: Path, tmp_path: Path
) -> None:
    before = parse(tmp_path, config)
    file = config / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("timeout: 10min", "timeout: 10"))
    found = parse(tmp_path, config)
    # The form for people who start something from the declarations; what runs by the clock, or is running, goes on by the last valid ones.
    assert sorted(Path(path).name for path in found["errors"]) == ["rerun.py"]
    assert found["dags"] == {dag_id: dag for dag_id, dag in before["dags"].items() if dag_id != "rerun"}
    (error,) = found["errors"].values()
    assert "providers/local-1core.yaml:" in error
    assert "launcher.timeout" in error
    assert "has no unit" in error
    assert 'File "' not in error, "a stack buries the sentence"
    first = parse(tmp_path / "new", config)
    assert sorted(Path(path).name for path in first["errors"]) == ["acceptance.py", "benchmark.py", "rerun.py"], (
        "nothing valid was ever seen here"
    )


@pytest.mark.parametrize("file", [*FILES, *FACTORIES], ids=lambda f: f"{f.parent.parent.name}/{f.name}")
def test_files_are_tables_of_contents(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= 80
    imported = set()
    for node in ast.walk(source_tree(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    assert {name for name in imported if name.split(".")[0] not in ("airflow", "plumbline", "typing", "__future__")} == set()
    assert {name for name in imported if name.startswith("airflow") and name != "airflow.sdk"} == set()


def test_our_task_modules_never_import_what_reaches_the_metadata_database() -> None:
    # The scheduler and the API server have that database; the plugin alone imports these.
    of_servers = ("pool_listener", "action_runs")
    for file in (ROOT / "include" / "plumbline").rglob("*.py"):
        if file.stem in (*of_servers, "plugin"):
            continue
        text = file.read_text()
        assert not [name for name in of_servers if name in text], file
        for node in ast.walk(source_tree(text)) if "airflow" in text else ():
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            # 3.1 has the reader of DAG files there; it opens no database.
            ours = "airflow.models.dagbag" if file.stem == "versions" else ""
            assert not [n for n in names if n.startswith(BANNED) and n != ours], file


def test_a_question_of_the_review_waits_in_a_dag_of_its_own(bundle: dict[str, Any]) -> None:
    review, decision = (bundle["dags"][name]["tasks"] for name in ("drift_review", "baseline_decision"))
    assert review["ask"]["operator"] == "TriggerDagRunOperator" and "QuestionOperator" not in {t["operator"] for t in review.values()}
    assert decision["question"]["operator"] == "QuestionOperator" and decision["question"]["upstream"] == ["tell"]
    assert decision["answer"]["upstream"] == ["question"] and decision["rerun"]["upstream"] == ["wanted"]


def test_several_providers_are_asked_for_by_one_form_that_requires_a_reason(bundle: dict[str, Any], changed: dict[str, Any]) -> None:
    rerun = bundle["dags"]["rerun"]
    assert (rerun["timetable"], rerun["tasks"]["start"]["upstream"]) == ("NullTimetable", ["choose"])
    form = rerun["params"]
    assert [name for name, field in form.items() if field["value"] is None and "null" not in field["schema"]["type"]] == [
        "reason",
        "providers",
    ]
    assert {"local-1core", "local-2core"} <= set(form["providers"]["schema"]["items"]["enum"])
    assert "gpt-tiny-cpu" in form["workloads"]["schema"]["items"]["enum"]
    limited = changed["dags"]
    assert "local-1core: 12.5 USD" in limited["rerun"]["params"]["providers"]["schema"]["description_md"]
    assert "12.5 USD" in limited["benchmark_local_1core"]["params"]["repeats"]["description"]
    assert "Budget" not in limited["benchmark_local_2core"]["params"]["repeats"]["description"]


def test_what_runs_by_the_clock_starts_paused_and_what_waits_for_results_or_people_does_not(bundle: dict[str, Any]) -> None:
    asked = {name for name, dag in bundle["dags"].items() if dag["starts_unpaused"]}
    assert asked == {"drift_review", "baseline_decision", "finding_action", "operations_log", "rerun", "acceptance"}
    assert not any(bundle["dags"][name]["crons"] for name in asked)


def test_a_team_server_watches_over_itself_from_the_start(changed: dict[str, Any]) -> None:
    unpaused = {name for name, dag in changed["dags"].items() if dag["starts_unpaused"]}
    assert unpaused == {
        "drift_review",
        "baseline_decision",
        "finding_action",
        "operations_log",
        "rerun",
        "acceptance",
        "upkeep",
        "upkeep_daily",
        "provider_watch",
        "availability_watch",
    }


def test_every_step_outlasts_an_outage_and_an_hourly_dag_does_not_wait_for_it(bundle: dict[str, Any], changed: dict[str, Any]) -> None:
    """An hour in DAGs that measure, compare or report, whoever the provider is; minutes where the next run is as good."""
    for dag_id, dag in (bundle["dags"] | changed["dags"]).items():
        for name, task in dag["tasks"].items():
            assert task["retry_policy"], (dag_id, name)
            most = task["max_retry_delay_s"] or 24 * 3600.0
            waits = sum(min(task["retry_delay_s"] * 2**i, most) for i in range(task["retries"]))
            if dag_id in ("upkeep", "upkeep_daily", "provider_watch", "availability_watch"):
                assert waits <= 3600 and (task["retries"] > 1 or name in ("watch.look", "watch.probe")), (dag_id, name)
            elif not name.endswith(".run") and name != "digest":
                assert 3600 <= waits <= 2 * 3600, (dag_id, name)
    run = changed["dags"]["benchmark_cluster_a"]["tasks"]["training.trial.run"]
    assert run["max_retry_delay_s"] is None, "the declared delays are doubled without a limit"


def test_nothing_is_deleted_from_an_archive_that_does_not_hold(bundle: dict[str, Any]) -> None:
    tasks = bundle["dags"]["upkeep_daily"]["tasks"]
    assert (tasks["expire"]["upstream"], tasks["expire"]["rule"]) == (["verify"], "all_success")
    assert tasks["export"]["upstream"] == [], "a copy elsewhere is wanted most when something is broken here"
    assert tasks["tidy"]["upstream"] == [], "what can be made again takes no room, whatever else is broken"
    assert "silence" in bundle["dags"]["upkeep"]["tasks"]
