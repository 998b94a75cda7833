"""Acceptance of two real nodes, one of which is throttled by a cgroup quota while its trial runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.declared import GANG_2, LONG, ONE, TRAIN
from tests.cluster.world import World

from plumbline.archive import open_archive
from plumbline.declarations import load
from plumbline.workflows.accept_nodes import acceptance_verdict

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(1800)]

CAMPAIGN = "e2e-accept"
# A fifth of a core, in the pod's own cgroup: of version 2, or of version 1, where no part of a pod may have more than the pod.
_THROTTLE = """
for pod in $(find /node -type d \\( -name '*pod{uid}' -o -name '*pod{escaped}.slice' \\)); do
  if [ -e $pod/cpu.max ]; then echo '20000 100000' > $pod/cpu.max && touch /tmp/done; fi
  for part in $pod/*/ $pod; do
    if [ -e $part/cpu.cfs_quota_us ]; then echo 100000 > $part/cpu.cfs_period_us; echo 20000 > $part/cpu.cfs_quota_us && touch /tmp/done; fi
  done
done
test -e /tmp/done
"""


def test_the_throttled_one_of_two_nodes_is_returned(e2e: World) -> None:
    names = sorted(node["metadata"]["name"] for node in e2e.cluster.nodes())
    if len(names) < 2:
        pytest.skip(f"needs two nodes; this cluster has {', '.join(names)}")
    good, bad = names[:2]
    e2e.shown_as(ONE)
    dag_id, namespace = load().providers[ONE].dag_id, e2e.namespace(ONE)
    e2e.client.set_paused(dag_id, False)
    conf = {"campaign": CAMPAIGN, "reason": "end to end", "workloads": [LONG], "placement": "each_node", "nodes": 2}
    run = e2e.client.trigger(dag_id, conf)

    def on_bad() -> dict[str, Any] | None:
        pods = [p for p in e2e.cluster.pods(namespace) if p["spec"].get("nodeName") == bad and p["status"].get("phase") == "Running"]
        return next((p for p in pods if '"phase": "steady"' in e2e.cluster.log(namespace, p["metadata"]["name"])), None)

    uid = e2e.cluster.eventually(on_bad, 900)["metadata"]["uid"]
    script = _THROTTLE.format(uid=uid, escaped=uid.replace("-", "_"))
    e2e.cluster.on_node(bad, e2e.image, "e2e-throttle", ["sh", "-c", script], "/sys/fs/cgroup")
    ended = e2e.ended(run, 900)
    assert ended.state == "success", e2e.explain(ended)
    with open_archive() as archive:
        fleet = acceptance_verdict(archive, CAMPAIGN, ONE)
    slow = {verdict.node.name: verdict.slow.get("step_time") for verdict in fleet.nodes}
    assert slow[good] is None and (slow[bad] or 0.0) > 0.1, slow
    assert bad in {verdict.node.name for verdict in fleet.returned}


def test_pairs_run_on_two_nodes_and_each_node_has_its_network(e2e: World) -> None:
    names = sorted(node["metadata"]["name"] for node in e2e.cluster.nodes())
    if len(names) < 2:
        pytest.skip(f"needs two nodes; this cluster has {', '.join(names)}")
    e2e.shown_as(ONE)
    e2e.client.set_paused(load().providers[ONE].dag_id, False)
    conf = {"campaign": "e2e-pairs", "reason": "end to end", "workloads": [TRAIN, GANG_2], "placement": "each_node", "rounds": 3}
    ended = e2e.ended(e2e.client.trigger(load().providers[ONE].dag_id, conf), 1500)
    assert ended.state == "success", e2e.explain(ended)
    with open_archive() as archive:
        fleet = acceptance_verdict(archive, "e2e-pairs", ONE)
        pairs = [d for d in archive.documents("e2e-pairs").values() if len(d.trial.on_nodes) == 2]
    for document in pairs:
        assert document.launch is not None and {pod.node for pod in document.launch.pods} == set(document.trial.on_nodes)
    for verdict in fleet.nodes:
        assert (verdict.node.missing, verdict.node.figures.get("peer_bandwidth", 0) > 0) == ("", True), verdict
