"""A drained node leaves one of each component that has two."""

from __future__ import annotations

from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[3] / "k8s" / "airflow"
NAMES = {"apiServer": "api-server", "scheduler": "scheduler", "triggerer": "triggerer"}
"""The component's label, by its name in the values."""


def test_each_component_with_several_replicas_has_a_budget() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    several = {NAMES[name] for name, part in values.items() if isinstance(part, dict) and part.get("replicas", 1) > 1}
    budgets = list(yaml.safe_load_all((FOLDER / "disruption-budgets.yaml").read_text()))
    covered = {each["spec"]["selector"]["matchLabels"]["component"] for each in budgets}
    assert covered == several | {"worker"} and values["workers"]["celery"]["replicas"] > 1
    assert all(each["spec"]["maxUnavailable"] == 1 for each in budgets)
