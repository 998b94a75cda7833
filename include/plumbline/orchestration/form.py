"""The forms that people fill in when they start a DAG by hand."""

from __future__ import annotations

from airflow.sdk import Param

from plumbline.declarations import Declarations, KubernetesLauncher, Provider

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
        "workloads": Param(
            [],
            type="array",
            items={"type": "string", "enum": names},
            examples=names,
            title="Workloads",
            description="Nothing chosen: everything that the monthly rerun runs.",
        ),
        "kinds": Param(_KINDS, type="array", items={"type": "string", "enum": _KINDS}, examples=_KINDS, title="Kinds"),
        "repeats": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=50,
            title="Repeats in each slot",
            description="Empty: as declared. Slots run one after the other, now.",
        ),
        "campaign": campaign_field("Empty: a campaign of its own, named by the time."),
    }
    if isinstance(provider.launcher, KubernetesLauncher):
        fields["placement"] = Param(
            "any",
            type="string",
            enum=["any", "fresh_node"],
            title="Placement",
            description="fresh_node: on nodes that these series were not measured on lately, to tell a bad node from a changed provider.",
        )
    return fields


def campaign_field(description: str) -> Param:
    """A campaign id, or nothing."""
    return Param(None, type=["null", "string"], pattern=_CAMPAIGN, title="Campaign", description=description)
