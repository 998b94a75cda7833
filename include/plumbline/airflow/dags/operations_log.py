"""Note what a provider did: an incident, a support ticket, a request for more quota, or maintenance.

What     add the entry to the operations log in the name of the user who started the run, or complete the one with the id; each state is kept.
         Promises about availability, recovery and answers are judged by it, and a broken one opens a finding.
When     by hand, as `plumbline log` does. The role that may start runs of `finding_action` may start these too.
Triage   A red `note` names the field that does not hold. Start another run.
"""

from typing import Any

from airflow.sdk import Param, dag

from plumbline.airflow.defaults import defaults, named
from plumbline.airflow.tasks.review import note
from plumbline.declarations.dag_ids import LOG_DAG

_TIME = "Such as 2026-11-02T10:00Z."


def _text(title: str, description: str, **schema: Any) -> Param:
    return Param("", type="string", maxLength=500, title=title, description=description, **schema)


def build() -> list[Any]:
    """The DAG of the module."""

    @dag(
        **named(LOG_DAG),
        schedule=None,
        params={
            "kind": Param("incident", type="string", enum=["incident", "ticket", "quota", "maintenance"], title="Kind"),
            "provider": Param(None, type="string", minLength=1, title="Provider", description="As it is declared."),
            "what": _text("What", "What happened, or what was asked."),
            "opened": _text("Opened", f"When it began, or was asked. {_TIME}"),
            "answered": _text("First answer", f"Empty: none yet. {_TIME}"),
            "solved": _text("Solved", f"When it ended, or was settled. Empty: it is open. {_TIME}"),
            "whose": Param("", type="string", enum=["", "provider", "us", "unknown"], title="Whose", description="Whose fault it is."),
            "severity": _text("Severity", "As the provider names it."),
            "reference": _text("Reference", "Its number at the provider."),
            "id": _text("Entry", "The id of an entry to complete or correct: what is left empty stays. Empty: a new entry."),
        },
        **defaults(__doc__, "drift", asked=True),
    )
    def operations_log() -> None:
        note()

    return [operations_log()]
