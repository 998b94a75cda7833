from __future__ import annotations

from pathlib import Path

from plumbline.embedded.doctor.dag_files import declared_dags
from plumbline.workflows.plan import DECISION_DAG

TEXT = """
from airflow.sdk import dag
from plumbline.airflow.defaults import defaults
from plumbline.workflows.plan import DECISION_DAG

@dag(schedule=None, **defaults(__doc__, housekeeping=True))
def by_its_function(): ...

@dag("by_its_first_word", **{**defaults(__doc__, asked=True), "max_active_runs": 64})
def one(): ...

@dag(dag_id=DECISION_DAG, **defaults(__doc__, housekeeping=False))
def two(): ...

def helper(): ...

for name in "ab":
    @dag(dag_id=name)
    def made_by_a_loop(): ...
"""


def test_ids_and_who_starts_them_are_read_without_running_a_file(tmp_path: Path) -> None:
    (tmp_path / "dags.py").write_text(TEXT)
    (tmp_path / "broken.py").write_text("def (")
    assert declared_dags(tmp_path) == {"by_its_function": True, "by_its_first_word": True, DECISION_DAG: False}
    assert declared_dags(tmp_path / "nowhere") == {}
