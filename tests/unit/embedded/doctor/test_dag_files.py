from __future__ import annotations

from pathlib import Path

from plumbline.airflow.dags import NAMES
from plumbline.declarations import dag_ids
from plumbline.embedded.doctor.dag_files import declared_dags

FILE = """from plumbline.airflow.dags import build

DAGS = build("{}", written_for="0.1.0")
"""


def test_ids_and_who_starts_them_are_read_without_running_a_file(tmp_path: Path) -> None:
    (tmp_path / "plumbline").mkdir()
    for name in ("upkeep", "scorecard_report", "benchmark", "baseline_decision"):
        (tmp_path / "plumbline" / f"{name}.py").write_text(FILE.format(name))
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "other_team.py").write_text("def build(name): ...\nbuild('rerun')\n")
    assert declared_dags(tmp_path) == {"upkeep": True, "upkeep_daily": True, "scorecard_report": False, "baseline_decision": True}
    assert declared_dags(tmp_path / "nowhere") == {}


def test_every_id_belongs_to_a_factory(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(FILE.format(name))
    assert set(declared_dags(tmp_path)) == {value for name, value in vars(dag_ids).items() if name.endswith("_DAG")}
