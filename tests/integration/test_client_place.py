"""A client at one place and a server at another: what is measured is the delay of the way between them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest
from tests.fakes.delayed_link import DelayedLink, NoLink
from tests.fakes.openai_server import Hosted, Plan
from tests.integration.test_endpoint_launcher import SHORT, home, trial_on

from plumbline.declarations import installation_paths
from plumbline.launch.collect import collect
from plumbline.launch.endpoint import EndpointClientLauncher
from plumbline.results import ResultDocument, ResultStore

__all__ = ["home"]
pytestmark = [pytest.mark.exclusive, pytest.mark.timeout(300)]

ROUND_TRIP_S, FIRST_S = 0.1, 0.05


def measured(round_trip_s: float, kind: Literal["netem", "relay"]) -> ResultDocument:
    """By a client in one namespace, of a server in the other."""
    try:
        with DelayedLink(round_trip_s, kind) as link, Hosted(Plan(first_s=FIRST_S, host=link.address), link.server) as hosted:
            trial = trial_on(hosted.url + "/v1", None, **{**SHORT, "server": {"backend": "external", "client_placement": "other_node"}})
            trial = trial.model_copy(update={"campaign_id": f"delay-{round_trip_s * 1000:g}"})
            store = ResultStore(installation_paths().results_url)
            EndpointClientLauncher([*link.client, sys.executable, "-m", "plumbline.harness"]).launch(trial, store)
            return collect(store, trial.campaign_id, trial.trial_id)[-1]
    except NoLink as why:
        pytest.skip(f"no delayed link between two network namespaces here: {why}")


@pytest.mark.parametrize("kind", ["netem", "relay"])
def test_the_delay_between_two_places_is_in_round_trip_and_first_token(home: Path, kind: Literal["netem", "relay"]) -> None:
    far, near = measured(ROUND_TRIP_S, kind), measured(0.0, kind)
    assert near.validity.failure_class is None and far.validity.failure_class is None, (near.validity, far.validity)
    for metric in ("network_round_trip_time", "protocol_round_trip_time", "time_to_first_token"):
        before, after = near.value(metric), far.value(metric)
        assert before is not None and after is not None
        assert after - before == pytest.approx(ROUND_TRIP_S, rel=0.1), metric
    answers, received = far.value("response_bytes"), far.value("network_received_bytes")
    assert answers is not None and received is not None
    # The namespace has nothing but this traffic: the answers, and the headers of their packets.
    assert answers < received < 3 * answers
    assert far.value("tcp_retransmit_share") == pytest.approx(0.0, abs=0.05)
