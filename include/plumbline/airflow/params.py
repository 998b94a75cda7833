"""Forms of DAGs that people start."""

from __future__ import annotations

from airflow.sdk import Param

from plumbline.declarations import Declarations, Provider
from plumbline.declarations.teams import KINDS

_CAMPAIGN = r"^[a-z0-9][a-z0-9.-]{0,62}$"


def on_demand_form(declared: Declarations, provider: Provider) -> dict[str, Param]:
    """The form of an on-demand benchmark; monthly runs use the defaults."""
    names = [w.name for w in declared.workloads_for(provider)]
    # Not the balance, as parsing must be deterministic.
    limit = f" Budget: {provider.budget}; `plumbline budget {provider.name}` shows the balance. Trials over it are skipped."
    fields = {
        "reason": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="Required for a run by hand. Every result keeps it. Example: “driver upgrade on 12 November”.",
        ),
        **_measured(
            names,
            "Empty: all monthly workloads.",
            f"Empty: as declared. Slots run one after the other.{limit if provider.budget is not None else ''}",
        ),
        "campaign": campaign_field("Empty: a new campaign, named by the time."),
    }
    if provider.launcher.chooses_nodes or provider.simulated:
        fields["placement"] = Param(
            "any",
            type="string",
            enum=["any", "fresh_node", "each_node"],
            title="Placement",
            description="fresh_node: on nodes that these series did not use recently, to separate a bad node from a changed provider. "
            "each_node: one trial of each workload on every node, see docs/acceptance.md.",
        )
        fields["nodes"] = _number_field("Nodes", "Of each_node: only the first so many. Empty: all.")
        fields["rounds"] = _number_field("Rounds", "Of each_node: so many rounds of pairs for workloads of two nodes.")
    return fields


def acceptance_form(declared: Declarations) -> dict[str, Param]:
    """The form of an acceptance: of providers whose nodes can be named."""
    names = [p.name for p in declared.enabled_providers() if p.launcher.chooses_nodes or p.simulated]
    trainings = sorted({w.name for p in declared.enabled_providers() for w in declared.workloads_for(p) if w.kind == "training"})
    return {
        "provider": Param(None, type="string", enum=names, title="Provider", description="Required. Its benchmark DAG must not be paused."),
        "nodes": _number_field("Nodes", "Empty: all nodes. Otherwise the first so many, by name."),
        "rounds": _number_field("Rounds", "So many rounds of pairs, which measure the network between nodes. Empty: none.", least=3),
        "workload": Param(
            None,
            type=["null", "string"],
            enum=[None, *trainings],
            title="Workload",
            description="A training of one node. Empty: the shortest that uses most of a node's accelerators.",
        ),
        "campaign": campaign_field("Empty: a new campaign, named by the time."),
    }


def _number_field(title: str, description: str, least: int = 1) -> Param:
    return Param(None, type=["null", "integer"], minimum=least, title=title, description=description)


def rerun_form(declared: Declarations) -> dict[str, Param]:
    """The form of a rerun on several providers. Only people start it, so the form itself requires a reason."""
    providers = declared.enabled_providers()
    names = [p.name for p in providers]
    workloads = sorted({w.name for p in providers for w in declared.workloads_for(p)})
    limited = "".join(f"\n- {p.name}: {p.budget}" for p in providers if p.budget is not None)
    budgets = f"\n\nBudgets (`plumbline budget` shows the balance; trials over it are skipped):\n{limited}" if limited else ""
    return {
        "reason": Param(
            None,
            type="string",
            minLength=3,
            maxLength=500,
            title="Why",
            description="Required. Every result keeps it. Example: “driver upgrade on 12 November”.",
        ),
        "providers": Param(
            None,
            type="array",
            minItems=1,
            items={"type": "string", "enum": names},
            examples=names,
            title="Providers",
            description_md=f"Required. Each runs in its own DAG, which must not be paused.{budgets}",
        ),
        **_measured(
            workloads,
            "Empty: all monthly workloads. Each provider runs those that fit it.",
            "Empty: as declared. Trials over a provider's budget are skipped, with a finding.",
        ),
        "campaign": campaign_field("Empty: a new campaign of all these providers, named by the time."),
    }


def _measured(workloads: list[str], chosen: str, repeats: str) -> dict[str, Param]:
    """`chosen`, `repeats`: descriptions."""
    return {
        "workloads": Param(
            [],
            type="array",
            items={"type": "string", "enum": workloads},
            examples=workloads,
            title="Workloads",
            description=chosen,
        ),
        "kinds": Param([*KINDS], type="array", items={"type": "string", "enum": [*KINDS]}, examples=[*KINDS], title="Kinds"),
        "repeats": Param(None, type=["null", "integer"], minimum=1, maximum=50, title="Repeats in each slot", description=repeats),
    }


def campaign_field(description: str) -> Param:
    return Param(None, type=["null", "string"], pattern=_CAMPAIGN, title="Campaign", description=description)
