"""Servers of a trial's Deployment that cannot serve: the trial ends as its own pod would, long before its time is up, and leaves nothing."""

from __future__ import annotations

import pytest
from tests.cluster.declared import ONE, SERVED, SERVER_CRASHES, SERVER_NINE_GPUS
from tests.cluster.test_failures import recorded
from tests.cluster.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("provider", "expected", "said"),
    [(SERVER_NINE_GPUS, "launch_timeout", "nvidia.com/gpu"), (SERVER_CRASHES, "server_error", "no such option: --prot")],
)
@pytest.mark.fault("the servers of a Deployment get no node", ends="launch_timeout", keeps="the reason of the scheduler")
@pytest.mark.fault("the servers of a Deployment crash", ends="server_error", keeps="exit code and last words")
def test_servers_that_cannot_serve_end_the_trial(e2e: World, provider: str, expected: str, said: str) -> None:
    run = e2e.ended(e2e.start(provider, [SERVED], provider), 600)
    assert run.state == "success", e2e.explain(run)
    attempts = recorded(provider, provider)
    assert attempts
    for document in attempts:
        assert document.validity.failure_class == expected, e2e.explain(run)
        assert document.launch is not None and said in (document.launch.failure_detail or ""), document.launch
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []
