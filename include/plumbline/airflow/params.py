"""Forms of DAGs that are started by hand."""

from __future__ import annotations

from airflow.sdk import Param

from plumbline.declarations import Declarations, Provider

_CAMPAIGN = r"^[a-z0-9][a-z0-9.-]{0,62}$"
_KINDS = ["training", "inference"]


def on_demand_form(declared: Declarations, provider: Provider) -> dict[str, Param]:
    """What an on-demand benchmark of the provider can be asked for. A monthly run leaves it as it is."""
    names = [w.name for w in declared.workloads_for(provider)]
    fields = {
        "reason": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="Required by hand; it stays with every result, such as “driver upgrade on 12 November”.",
        ),
        **_measured(
            names,
            "Nothing chosen: everything that the monthly rerun runs.",
            f"Empty: as declared. Slots run one after the other, now.{_budget(provider)}",
        ),
        "campaign": campaign_field("Empty: a campaign of its own, named by the time."),
    }
    if provider.launcher.runs_pods:
        fields["placement"] = Param(
            "any",
            type="string",
            enum=["any", "fresh_node"],
            title="Placement",
            description="fresh_node: on nodes that these series were not measured on lately, to tell a bad node from a changed provider.",
        )
    return fields


def rerun_form(declared: Declarations) -> dict[str, Param]:
    """What several providers can be asked for at once. Nothing runs it but people, so that the form itself can require a reason."""
    providers = declared.enabled_providers()
    names = [p.name for p in providers]
    workloads = sorted({w.name for p in providers for w in declared.workloads_for(p)})
    limited = "".join(f"\n- {p.name}: {p.budget}" for p in providers if p.budget is not None)
    budgets = f"\n\nBudgets (`plumbline budget` says what is left, trials past it are left out):\n{limited}" if limited else ""
    return {
        "reason": Param(
            None,
            type="string",
            minLength=3,
            maxLength=500,
            title="Why",
            description="Required; it stays with every result, such as “driver upgrade on 12 November”.",
        ),
        "providers": Param(
            None,
            type="array",
            minItems=1,
            items={"type": "string", "enum": names},
            examples=names,
            title="Providers",
            description_md=f"Required; each runs in its own DAG, which must not be paused.{budgets}",
        ),
        **_measured(
            workloads,
            "Nothing chosen: everything that the monthly rerun runs. A provider measures those of them that it can run.",
            "Empty: as declared. What a provider's budget does not carry is left out, and a finding says so.",
        ),
        "campaign": campaign_field("Empty: a campaign of its own over all these providers, named by the time."),
    }


def _measured(workloads: list[str], chosen: str, repeats: str) -> dict[str, Param]:
    """What is measured and how often, with what to say of the choice and of the number."""
    return {
        "workloads": Param(
            [],
            type="array",
            items={"type": "string", "enum": workloads},
            examples=workloads,
            title="Workloads",
            description=chosen,
        ),
        "kinds": Param(_KINDS, type="array", items={"type": "string", "enum": _KINDS}, examples=_KINDS, title="Kinds"),
        "repeats": Param(None, type=["null", "integer"], minimum=1, maximum=50, title="Repeats in each slot", description=repeats),
    }


def _budget(provider: Provider) -> str:
    """What is declared: what is left changes with every trial, and a form must read the same however often it is parsed."""
    if provider.budget is None:
        return ""
    return f" Budget: {provider.budget}; what is left of it says `plumbline budget {provider.name}`. Trials past it are left out."


def campaign_field(description: str) -> Param:
    """A campaign id, or nothing."""
    return Param(None, type=["null", "string"], pattern=_CAMPAIGN, title="Campaign", description=description)
