"""The environment of a trial as the archive keeps it: what the harness found inside, and what only the launcher saw from outside."""

from __future__ import annotations

from plumbline.results.document import Environment, ResultDocument, Scalar

_OUTSIDE = {
    "kubernetes.version": "kubernetes.version",
    "kubernetes.runtime": "kubernetes.runtime",
    "qos_class": "kubernetes.qos_class",
    "image_id": "container.image_id",
    "host.instance_type": "host.instance_type",
    "host.region": "host.region",
    "host.zone": "host.zone",
}
"""A pod's fact → the environment's. Names of single launches, nodes and jobs are left out: they differ each time and explain nothing."""


def surroundings(document: ResultDocument) -> Environment | None:
    """The harness's facts with those of its pods that it cannot know; values that differ between a gang's pods are named together.

    The harness's own word counts where both have one. None if the harness never looked around.
    """
    if document.environment is None or document.launch is None or not document.launch.pods:
        return document.environment
    seen: dict[str, Scalar] = {}
    for name, fact in _OUTSIDE.items():
        values = sorted({str(pod.facts[name]) for pod in document.launch.pods if pod.facts.get(name) is not None})
        if values:
            seen[fact] = ", ".join(values)
    return Environment.of(
        {**seen, **{key: value for key, value in document.environment.facts.items() if value is not None or key not in seen}}
    )
