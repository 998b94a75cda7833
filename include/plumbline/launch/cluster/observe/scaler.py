"""Why a trial's own scaler could not multiply its servers, by the conditions of the scaler itself: then no scale-out is not the provider's. Pure."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from plumbline.launch.cluster.names import Row

_CONDITIONS_OF_V1 = "autoscaling.alpha.kubernetes.io/conditions"
"""Annotation in which version 1 of the API has what version 2 has in the status."""
_WRONG = {"ScalingActive": "False", "AbleToScale": "False", "Ready": "False", "Fallback": "True"}
"""Types of conditions of a HorizontalPodAutoscaler and of KEDA's ScaledObject, and the status with which they cannot scale."""
_AT_REST = "ScalingDisabled"
"""A scaler that is at zero servers by itself says so by ScalingActive, too."""


def scaler_trouble(scaler: Row) -> str | None:
    """What keeps the scaler from its work, such as `ScalingActive=False (FailedGetResourceMetric): unable to get metrics`; None if it says nothing."""
    for row in _conditions(scaler):
        kind, status, reason = str(row.get("type")), str(row.get("status")), str(row.get("reason") or "no reason")
        if _WRONG.get(kind) == status and reason != _AT_REST:
            return f"{kind}={status} ({reason}): {str(row.get('message') or 'no message').strip()}"
    return None


def _conditions(scaler: Row) -> list[dict[str, Any]]:
    text = ((scaler.get("metadata") or {}).get("annotations") or {}).get(_CONDITIONS_OF_V1) or "[]"
    try:
        of_v1 = from_json(text)
    except ValueError:  # others may write annotations, too
        of_v1 = []
    rows = [*((scaler.get("status") or {}).get("conditions") or ()), *(of_v1 if isinstance(of_v1, list) else ())]
    return [row for row in rows if isinstance(row, dict)]
