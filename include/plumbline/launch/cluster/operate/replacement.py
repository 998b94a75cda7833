"""Replace a pod as the trial's fault declares it: store its end, delete it, confirm its successor."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timezone
from functools import partial

from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.observe.observation import LaunchObservation, has_ended
from plumbline.launch.cluster.observe.polling import merge_observations, poll_launch, read_logs
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.replaced_pods import ReplacedPod
from plumbline.launch.failures import Unreachable
from plumbline.launch.remote import tolerate

_log = logging.getLogger(__name__)
_POLL_S = 0.5
_GONE_S = 120.0
"""Seconds until a pod deleted without grace must be gone: only a finalizer holds it longer."""


def begin_replacement(attempt: Attempt, observation: LaunchObservation) -> bool:
    """Store the pod's request for its deletion and its observation. False if the pod has ended or vanished, which ends the attempt."""
    api, name = attempt.api(attempt.poll_patience_s), attempt.pod_names[0]
    pod = attempt.api().get("Pod", name)
    attempt.seen = poll_launch(api, names.selector(attempt.trial), merge_observations(attempt.seen, observation))
    if pod is None or has_ended(pod):
        return False
    text, _ = read_logs(api, attempt.seen, most_s=attempt.poll_patience_s)
    log = f"{attempt.home.folder(attempt.trial)}/launch.{len(attempt.replaced.done)}.log"
    tolerate("store the log of the pod that is deleted", partial(attempt.home.put, log, text), None)
    attempt.replaced.done.append(ReplacedPod(name, attempt.seen, datetime.now(timezone.utc)))
    attempt.seen, attempt.started_at = LaunchObservation(expected=attempt.seen.expected), None
    attempt.save_state()
    return True


def delete_replaced_pod(attempt: Attempt, api: ClusterApi) -> None:
    """Delete the pod without grace and wait until it is gone. ApiRefused; Unreachable, also if it remains."""
    replaced = attempt.replaced.pending
    if replaced is None:
        raise ValueError(f"no pod of {attempt.trial.trial_id} is pending replacement")
    if replaced.gone_at is not None:
        return
    if api.get("Pod", replaced.name) is not None:
        replaced.asked_at = datetime.now(timezone.utc)
        api.delete("Pod", replaced.name, grace_s=0)
        until = time.monotonic() + _GONE_S
        while api.get("Pod", replaced.name) is not None:
            if time.monotonic() > until:
                raise Unreachable(
                    f"pod {replaced.name} still exists {_GONE_S:.0f} s after its deletion without grace; check its finalizers"
                )
            time.sleep(_POLL_S)
    replaced.gone_at = datetime.now(timezone.utc)
    _log.info("Pod %s is gone, as its trial asked; pod %s replaces it.", replaced.name, attempt.pod_names[0])
    attempt.save_state()


def confirm_replacement(attempt: Attempt) -> None:
    """Store that the next pod exists. OSError if the store fails; the next process then finds the pod."""
    replaced = attempt.replaced.pending
    if replaced is not None:
        replaced.created_at = datetime.now(timezone.utc)
        attempt.save_state()
