"""Workflows, one a file, free of Airflow: the DAGs, the command line and tests call it.

`from plumbline import workflows` imports a workflow when its name is first used, so that parsing a DAG loads no archive and no statistics.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.workflows import (  # isort: skip
        accept as accept,
        accept_price as accept_price,
        alert as alert,
        baseline_decision as baseline_decision,
        benchmark as benchmark,
        budget as budget,
        campaign_bill as campaign_bill,
        check_installation as check_installation,
        check_provider as check_provider,
        claim as claim,
        compare as compare,
        current_results as current_results,
        decide as decide,
        evidence_pack as evidence_pack,
        finding_action as finding_action,
        findings as findings,
        import_results as import_results,
        observe as observe,
        operations_log as operations_log,
        pending_changes as pending_changes,
        plan as plan,
        probe as probe,
        read_prices as read_prices,
        record as record,
        rehearse as rehearse,
        report as report,
        retain as retain,
        review as review,
        transfer as transfer,
        verify_pack as verify_pack,
    )


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error
