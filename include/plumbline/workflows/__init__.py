"""Workflows, one a file, free of Airflow: the DAGs, the command line and tests call it.

`from plumbline import workflows` imports a workflow when its name is first used, so that parsing a DAG loads no archive and no statistics.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.workflows import (
        accept_nodes,
        accept_price,
        alert,
        baseline_decision,
        budget,
        check_availability,
        check_connections,
        check_installation,
        check_provider,
        claim,
        claim_mark,
        collect,
        decide,
        evidence_pack,
        finding_action,
        findings,
        import_results,
        missing_reviews,
        operations_log,
        pending_changes,
        plan,
        plan_trials,
        probe,
        read_prices,
        record,
        rehearse,
        report,
        retain,
        review,
        run,
        sweep,
        transfer,
        validate,
        verify_pack,
    )


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error
