"""The generated airflow.cfg and its secrets."""

from __future__ import annotations

import configparser
import os
import stat
from pathlib import Path

import pytest
import yaml
from sqlalchemy import make_url

from plumbline.embedded.doctor.databases import find_airflow
from plumbline.embedded.settings import environment, password, write_settings


def read(home: Path, port: int = 18080, reparse: bool = False) -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(write_settings(home, port, reparse=reparse))
    return config


def test_airflow_listens_on_loopback_with_a_login(tmp_path: Path) -> None:
    config = read(tmp_path, 18080)
    assert config["api"]["host"] == "127.0.0.1"
    assert config["core"]["execution_api_server_url"] == "http://127.0.0.1:18080/execution/"
    assert config["core"]["simple_auth_manager_all_admins"] == "False"
    assert len(password(tmp_path)) >= 20


@pytest.mark.parametrize("name", ["ada's füß %20 #1?", "50%", "%(here)s"])
def test_airflow_reads_the_folders_of_any_home(tmp_path: Path, name: str) -> None:
    config = configparser.ConfigParser()  # with interpolation, like Airflow's
    config.read(write_settings(tmp_path / name, 18080, reparse=False))
    assert config["logging"]["base_log_folder"] == str(tmp_path / name / "logs")
    assert config["logging"]["dag_processor_child_process_log_directory"] == str(tmp_path / name / "logs" / "dag_processor")
    assert make_url(config["database"]["sql_alchemy_conn"]).database == str(tmp_path / name / "airflow.db")
    assert find_airflow(tmp_path / name, {}).database == config["database"]["sql_alchemy_conn"]


def test_a_home_that_airflow_would_take_for_another_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "ada")
    with pytest.raises(ValueError, match=r"Airflow cannot use the folder .*/\$WHO: .*; expected one without \$"):
        write_settings(tmp_path / "$WHO", 18080, reparse=False)
    assert not (tmp_path / "$WHO").exists()
    write_settings(tmp_path / "$5", 18080, reparse=False)


def test_one_task_at_a_time_and_nothing_starts_by_itself(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config["core"]["parallelism"] == "1"
    assert config["core"]["dags_are_paused_at_creation"] == "True"


def test_secrets_are_made_once_and_nobody_else_reads_them(tmp_path: Path) -> None:
    first, second = read(tmp_path), read(tmp_path, 19090)
    for section, key in (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret")):
        assert first[section][key] == second[section][key]
        assert len(first[section][key]) >= 32
    for file in ("airflow.cfg", "secrets.json", "passwords.json"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600, file
    other = read(tmp_path / "other")
    assert other["api_auth"]["jwt_secret"] != first["api_auth"]["jwt_secret"]


def test_secrets_do_not_travel_in_the_environment(tmp_path: Path) -> None:
    config = read(tmp_path)
    told = " ".join(environment(tmp_path, {"PATH": "/bin"}).values())
    assert config["core"]["fernet_key"] not in told
    assert config["api_auth"]["jwt_secret"] not in told


def test_a_shell_that_configures_another_airflow_does_not_change_ours(tmp_path: Path) -> None:
    inherited = {
        "AIRFLOW__CORE__DAGS_FOLDER": "/elsewhere",
        "AIRFLOW__API__HOST": "0.0.0.0",
        "AIRFLOW__CORE__FERNET_KEY_CMD": "echo other",
        "AIRFLOW__SMTP__SMTP_HOST": "mail",
        "AIRFLOW_CONN_PLUMBLINE_SLACK": "slack://",
        "PYTHONPATH": os.pathsep.join(["/mine", "/also-mine"]),
    }
    env = environment(tmp_path, inherited)
    assert {"AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__API__HOST", "AIRFLOW__CORE__FERNET_KEY_CMD"}.isdisjoint(env)
    assert env["AIRFLOW__SMTP__SMTP_HOST"] == "mail"
    assert env["AIRFLOW_CONN_PLUMBLINE_SLACK"] == "slack://"
    assert env["PYTHONPATH"].split(os.pathsep)[1:] == ["/mine", "/also-mine"]


@pytest.mark.fault("a starved machine imports a DAG file for longer than Airflow's 30 s", ends="the DAG stays", keeps="running campaigns")
def test_the_import_of_a_dag_file_may_take_two_minutes(tmp_path: Path) -> None:
    own = read(tmp_path, reparse=True)
    chart = yaml.safe_load((Path(__file__).parents[3] / "k8s" / "airflow" / "values.yaml").read_text())["config"]
    for settings in (own, chart):
        assert int(settings["core"]["dagbag_import_timeout"]) >= 120
        assert int(settings["dag_processor"]["dag_file_processor_timeout"]) > int(settings["core"]["dagbag_import_timeout"])


def test_only_an_airflow_that_stays_reads_its_files_again(tmp_path: Path) -> None:
    assert int(read(tmp_path, reparse=False)["dag_processor"]["min_file_process_interval"]) > 3600
    assert int(read(tmp_path, reparse=True)["dag_processor"]["min_file_process_interval"]) <= 60
