"""What Plumbline does, one workflow a file, free of Airflow: the DAGs, the command line and tests call it.

`from plumbline import workflows` imports a workflow when its name is first used, so that parsing a DAG loads no archive and no statistics.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.workflows import (
        accept_price as accept_price,
    )
    from plumbline.workflows import (
        alert as alert,
    )
    from plumbline.workflows import (
        baseline_decision as baseline_decision,
    )
    from plumbline.workflows import (
        benchmark as benchmark,
    )
    from plumbline.workflows import (
        budget as budget,
    )
    from plumbline.workflows import (
        campaign_bill as campaign_bill,
    )
    from plumbline.workflows import (
        check_installation as check_installation,
    )
    from plumbline.workflows import (
        check_provider as check_provider,
    )
    from plumbline.workflows import (
        compare as compare,
    )
    from plumbline.workflows import (
        current_results as current_results,
    )
    from plumbline.workflows import (
        decide as decide,
    )
    from plumbline.workflows import (
        evidence_pack as evidence_pack,
    )
    from plumbline.workflows import (
        findings as findings,
    )
    from plumbline.workflows import (
        pending_changes as pending_changes,
    )
    from plumbline.workflows import (
        plan as plan,
    )
    from plumbline.workflows import (
        probe as probe,
    )
    from plumbline.workflows import (
        read_prices as read_prices,
    )
    from plumbline.workflows import (
        record as record,
    )
    from plumbline.workflows import (
        rehearse as rehearse,
    )
    from plumbline.workflows import (
        report as report,
    )
    from plumbline.workflows import (
        retain as retain,
    )
    from plumbline.workflows import (
        review as review,
    )
    from plumbline.workflows import (
        transfer as transfer,
    )
    from plumbline.workflows import (
        verify_pack as verify_pack,
    )


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error
