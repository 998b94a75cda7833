"""Pure: the failure class of a launch, from what the cluster showed and what the result document says.

A document that holds and did not fail is a result, whatever befell the pods after it was written. Else the evidence counts in this order:
what we stopped it for; the first pod that failed by itself (the others of a gang die because of it); the document's own class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone

from plumbline.launch.cluster import pod_state
from plumbline.launch.cluster.base import Row, Seen, Stop, StopReason
from plumbline.launch.cluster.payload import event_time
from plumbline.launch.cluster.pod_timeline import about
from plumbline.launch.cluster.pod_verdict import Verdict, verdict
from plumbline.launch.outcome import FAILED, STORE_FAILED, Outcome
from plumbline.results import FailureClass, Validity

_QUOTA = re.compile(r"exceeded quota", re.IGNORECASE)
_NO_ROOM = re.compile(r"nodes? (are|is) available|insufficient|did ?n['o]t match|taint|not enough|no nodes", re.IGNORECASE)
_LATEST = datetime.max.replace(tzinfo=timezone.utc)


def classify(seen: Seen, validity: Validity | None) -> Outcome:
    """Failure class and a sentence for people; (None, None) if the trial was measured. `validity`: of the document, None if none came."""
    failed = _first_failure(seen)
    if validity is not None and validity.failure_class is None and not _contradicts(seen):
        return None, None
    if seen.stop is not None and not _yields(seen.stop, failed):
        return _STOPS[seen.stop.reason](seen, seen.stop)
    if failed is not None:
        return _of_pods(seen, failed, validity)
    if validity is None:
        return _without_document(seen)
    return validity.failure_class, _sentence(validity)


def _yields(stop: Stop, failed: Verdict | None) -> bool:
    """An outage or a kill says nothing about the trial: a pod that had failed by then knows better. What we killed, we deleted ourselves."""
    if failed is None:
        return False
    return stop.reason == "unreachable" or (stop.reason == "killed" and failed.failure_class != "interrupted")


def _contradicts(seen: Seen) -> bool:
    """The harness that wrote the document says that it failed, and the document that it did not."""
    writers = [verdict(pod, about(pod, seen.events), gone=False) for pod in seen.pods if pod_state.rank_of(pod) == 0]
    return any(each is not None and not each.told and each.exit_code == FAILED for each in writers)


def _first_failure(seen: Seen) -> Verdict | None:
    """The verdict on the pod that failed first; in the same second, what the cluster itself tells counts before an exit code."""
    found = (verdict(pod, about(pod, seen.events), gone=pod_state.name_of(pod) in seen.gone) for pod in seen.pods)
    return min((each for each in found if each is not None), key=lambda each: (each.at or _LATEST, not each.told), default=None)


def _of_pods(seen: Seen, failed: Verdict, validity: Validity | None) -> Outcome:
    detail = failed.detail if seen.expected == 1 else f"{failed.detail} (the first of {seen.expected} pods that failed)"
    if failed.told or failed.exit_code != FAILED:
        if failed.exit_code != STORE_FAILED or failed.told or validity is None:
            return failed.failure_class, detail
        # The pods' store was away, and the document came home by their log.
        return (validity.failure_class or failed.failure_class), _sentence(validity)
    if validity is None:
        return "harness_error", f"{detail}; its result document is not in the store"
    if validity.failure_class is None:
        return "harness_error", f"{detail}; but its document says {validity.status}"
    return validity.failure_class, _sentence(validity)


def _without_document(seen: Seen) -> Outcome:
    ended = [pod for pod in seen.pods if pod_state.succeeded(pod)]
    if ended:
        name = pod_state.name_of(min(ended, key=pod_state.rank_of))
        return (
            "harness_error",
            f"pod {name} ended with exit code 0, but its result document is not in the store: is launcher.results_url the one that the pods write to?",
        )
    if not seen.pods:
        return "interrupted", "nothing of the launch is on the cluster, and nobody saw how it ended"
    states = "; ".join(f"pod {pod_state.name_of(pod)} {pod_state.describe(pod)}" for pod in seen.pods)
    return "interrupted", f"the launch was ended before its pods were, and there is no result document: {states}"


def _sentence(validity: Validity) -> str:
    return "; ".join(reason.detail for reason in validity.reasons)


def _not_scheduled(seen: Seen, stop: Stop) -> Outcome:
    waiting = [pod for pod in seen.pods if not pod_state.on_node(pod)]
    said = " ".join([stop.detail, *(_scheduler_words(pod, seen) for pod in waiting)])
    if _QUOTA.search(said):
        return "quota_exceeded", f"{stop.detail}; raise the namespace's ResourceQuota, or lower launcher.parallel"
    if any(_gates(pod) for pod in waiting):
        gates = ", ".join(sorted({gate for pod in waiting for gate in _gates(pod)}))
        return (
            "quota_exceeded",
            f"{stop.detail}; its queue did not admit it (scheduling gate {gates}): look at the Kueue workload and the quota of launcher.queue",
        )
    if _NO_ROOM.search(said):
        return (
            "insufficient_capacity",
            f"{stop.detail}; no node had room, the labels of launcher.node_selector and only taints that launcher.tolerations covers, "
            "and was new to the series if a fresh_node was asked for",
        )
    return "launch_timeout", stop.detail


def _scheduler_words(pod: Row, seen: Seen) -> str:
    warnings = [event for event in about(pod, seen.events) if event.get("type") == "Warning"]
    return " ".join([pod_state.why_no_node(pod), *(str(event.get("message")) for event in sorted(warnings, key=event_time)[-1:])])


def _gates(pod: Row) -> list[str]:
    return [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def _not_started(seen: Seen, stop: Stop) -> Outcome:
    late = [pod for pod in seen.pods if not pod_state.started(pod)]
    pulling = [pod for pod in late if _still_pulls(pod, seen)]
    hint = f"; {len(pulling)} of them still pulled the image: raise launcher.startup_timeout, or keep the image nearer" if pulling else ""
    return "launch_timeout", f"{stop.detail}{hint}"


def _still_pulls(pod: Row, seen: Seen) -> bool:
    reasons = [event.get("reason") for event in about(pod, seen.events)]
    return "Pulling" in reasons and "Pulled" not in reasons


def _unreachable(_: Seen, stop: Stop) -> Outcome:
    if stop.status == 403:
        # Rights do not come back by themselves. A token that is refused (401) often does: it is rotated, and read anew by the next try.
        return (
            "bad_declaration",
            f"{stop.detail}; the cluster does not allow what the launch needs: apply k8s/provider, or run plumbline cluster doctor",
        )
    hint = "; renew the token in launcher.connection" if stop.status == 401 else ""
    return "unreachable", f"{stop.detail}{hint}"


def _refused(_: Seen, stop: Stop) -> Outcome:
    status = stop.status or 0
    if status == 403 and _QUOTA.search(stop.detail):
        return "quota_exceeded", f"{stop.detail}; raise the namespace's ResourceQuota, or lower launcher.parallel"
    if status in (401, 408, 429) or status >= 500:
        return "unreachable", f"the cluster answered {status}: {stop.detail}"
    return "bad_declaration", f"the cluster refused the launch ({status}): {stop.detail}; plumbline cluster doctor tries what it needs"


def _as(failure: FailureClass) -> Callable[[Seen, Stop], Outcome]:
    return lambda _, stop: (failure, stop.detail)


_STOPS: dict[StopReason, Callable[[Seen, Stop], Outcome]] = {
    "schedule_timeout": _not_scheduled,
    "startup_timeout": _not_started,
    "image_error": _as("image_error"),
    "config_error": _as("bad_declaration"),
    "deadline": _as("timeout"),
    "unreachable": _unreachable,
    "refused": _refused,
    "killed": _as("interrupted"),
}
