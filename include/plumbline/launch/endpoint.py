"""Launcher for hosted models: only the client runs, as a process on this machine."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.declarations import EndpointLauncher as Declared
from plumbline.harness import launcher_protocol
from plumbline.launch.connections import airflow_connection
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, ProbeSkipped, ProviderFacts
from plumbline.launch.local.process_launcher import Allocation, ProcessLauncher, StartRefused
from plumbline.results.probe_document import ProbeDocument

_CLIENT_MEMORY = 4 * 2.0**30


class EndpointClientLauncher(ProcessLauncher):
    """Runs the client of a hosted model.

    The key goes from the Airflow connection into the environment of the client's process: no argument, file or record ever holds it.
    """

    def place(self, trial: Trial) -> Allocation | StartRefused:
        return _allocation(trial.provider.launcher_as(Declared))

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return ProviderFacts((), {}, (f"{provider.name} is a hosted endpoint: only a trial can observe its environment",))

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return ProbeSkipped(f"{provider.name} is a hosted endpoint without a machine to probe")


def _allocation(declared: Declared) -> Allocation | StartRefused:
    secrets = {}
    if declared.connection is not None:
        try:
            secrets[launcher_protocol.ENDPOINT_KEY_VARIABLE] = _api_key(declared.connection)
        except ValueError as error:
            return StartRefused("endpoint", "bad_declaration", f"launcher.connection: {error}")
    # Nothing else is measured on this machine meanwhile, so the client may use all of it.
    return Allocation("endpoint", declared.machine, None, _CLIENT_MEMORY, declared.timeout, secrets)


def _api_key(connection_id: str) -> str:
    """The connection's password; ValueError unless it fits into a header."""
    key = airflow_connection(connection_id, "is not defined; expected one whose password is the API key").password
    if not key:
        raise ValueError(f"Airflow connection {connection_id} has no password; expected the API key there")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(
            f"the password of Airflow connection {connection_id} has characters that an HTTP header cannot hold; expected the API key"
        )
    return str(key)
