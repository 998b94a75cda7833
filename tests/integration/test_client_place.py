"""A client at one place, run as its pod runs it, and a server at another: what is measured is the delay of the way between them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from tests.fakes.delayed_link import DelayedLink, NoLink
from tests.fakes.openai_server import Hosted, Plan
from tests.fakes.trials import cluster_provider
from tests.integration.test_endpoint_launcher import KEY, SHORT, home, trial_on

from plumbline.declarations import EndpointLauncher, installation_paths
from plumbline.declarations.providers.endpoint import ClientPlace
from plumbline.declarations.providers.launchers import with_client_at
from plumbline.results import ResultDocument, ResultStore

__all__ = ["home"]
pytestmark = [pytest.mark.exclusive, pytest.mark.timeout(300)]

ROUND_TRIP_S, FIRST_S = 0.1, 0.05
CLIENT = ClientPlace(provider="cluster-a", secret="api-key")


def measured(round_trip_s: float, kind: Literal["netem", "relay"]) -> ResultDocument:
    """By a client in one namespace, of a server in the other."""
    try:
        with DelayedLink(round_trip_s, kind) as link, Hosted(Plan(first_s=FIRST_S, host=link.address, key=KEY), link.server) as hosted:
            trial = trial_on(hosted.url + "/v1", None, **{**SHORT, "server": {"backend": "external", "client_placement": "other_region"}})
            endpoint, cluster = trial.provider.launcher_as(EndpointLauncher), cluster_provider()
            launcher = with_client_at(endpoint, CLIENT, cluster.launcher, f"{cluster.cloud} {cluster.region}")
            provider = trial.provider.model_copy(update={"launcher": launcher})
            trial = trial.model_copy(update={"provider": provider, "campaign_id": f"delay-{round_trip_s * 1000:g}"})
            store = ResultStore(installation_paths().results_url)
            store.put_trial(trial)
            specification = f"{store.url}/{store.folder(trial)}/trial.json"
            command = [sys.executable, "-m", "plumbline.harness", "run", "--trial", specification, "--out", store.url]
            done = subprocess.run(
                [*link.client, *command], env={**os.environ, "PLUMBLINE_ENDPOINT_KEY": KEY}, capture_output=True, text=True, check=False
            )
            document = store.document(store.folder(trial))
            assert done.returncode == 0, document.validity
            return document
    except NoLink as why:
        pytest.skip(f"no delayed link between two network namespaces here: {why}")


@pytest.mark.parametrize("kind", ["netem", "relay"])
def test_the_delay_between_two_places_is_in_round_trip_and_first_token(home: Path, kind: Literal["netem", "relay"]) -> None:
    far, near = measured(ROUND_TRIP_S, kind), measured(0.0, kind)
    for metric in ("network_round_trip_time", "protocol_round_trip_time", "time_to_first_token"):
        before, after = near.value(metric), far.value(metric)
        assert before is not None and after is not None
        assert after - before == pytest.approx(ROUND_TRIP_S, rel=0.1), metric
    answers, received = far.value("response_bytes"), far.value("network_received_bytes")
    assert answers is not None and received is not None
    # The namespace has nothing but this traffic: the answers, and the headers of their packets.
    assert answers < received < 3 * answers
    assert far.value("tcp_retransmit_share") == pytest.approx(0.0, abs=0.05)
    assert far.environment is not None and far.environment.facts["client.place"] == "test-cloud region-1"
    assert KEY not in far.model_dump_json()
