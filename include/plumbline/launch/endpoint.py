"""Launcher for hosted models: only the client runs, as a process on this machine."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.declarations import EndpointLauncher as Declared
from plumbline.harness import launcher_protocol
from plumbline.harness.inference.endpoint import Endpoint, classify_failure
from plumbline.harness.inference.load.prompts import prompt_source
from plumbline.launch.cluster.observe.replicas import recorded_replicas
from plumbline.launch.connections import airflow_connection
from plumbline.launch.failures import EXCEPTIONS, BadDeclaration, Unreachable, is_refusal_of_host
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, OnProgress, ProbeSkipped, ProviderFacts
from plumbline.launch.local.process_launcher import Allocation, ProcessLauncher, StartRefused
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.multi_process import LOST_SENDER
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.transport import Settings
from plumbline.results import LaunchRecord, ResultStore
from plumbline.results.probe_document import ProbeDocument

_CLIENT_MEMORY = 4 * 2.0**30
_CHECK_S = 30.0
_CHECK_MEMORY, _START_S = 512 * 2**20, 30.0
"""Of the process of a check: bytes, and seconds that a busy machine may take to start it."""
_PROMPT_TOKENS = 8


class EndpointClientLauncher(ProcessLauncher):
    """Runs the client of a hosted model.

    The key goes from the Airflow connection into the environment of the client's process: no argument, file or record ever holds it.
    """

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        deployment = trial.provider.launcher_as(Declared).deployment
        if deployment is None:
            return super().launch(trial, store, on_progress)
        try:
            with recorded_replicas(deployment) as counts:
                record = super().launch(trial, store, on_progress)
        except (BadDeclaration, Unreachable) as error:
            return self.refused(trial, store, StartRefused("endpoint", error.failure_class, str(error)))
        if record.exit_code is not None:  # its attempt is the newest one
            store.put_replicas(store.trial(store.announced(trial.campaign_id, trial.trial_id)[-1]), counts)
        return record

    def place(self, trial: Trial) -> Allocation | StartRefused:
        return _allocation(trial.provider.launcher_as(Declared))

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return ProviderFacts((), {}, (f"{provider.name} is a hosted endpoint: only a trial can observe its environment",))

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return ProbeSkipped(f"{provider.name} is a hosted endpoint without a machine to probe")

    def check_uptime(self, declared: Declarations, provider: Provider, now: datetime) -> float:
        launcher = provider.launcher_as(Declared)
        workload = next((served for w in declared.workloads_for(provider) if (served := w.serving) is not None), None)
        if workload is None:
            raise BadDeclaration(f"no declared workload fits {provider.name}; expected one of inference, whose request the check sends")
        try:
            endpoint = Endpoint(launcher, workload, None if launcher.connection is None else _api_key(launcher.connection))
            (prompt,) = prompt_source(workload).segments([_PROMPT_TOKENS], np.random.default_rng(int(now.timestamp())))
        except ValueError as error:
            raise BadDeclaration(f"{provider.name}: {error}") from None
        one = np.ones(1, np.int32)
        load = PhaseLoad("steady", 1.0, np.zeros(1), one * len(prompt.ids), one, -one, closed=True)
        # In a process of its own: whatever the endpoint answers, the triggerer keeps its memory and goes on with its other checks.
        apart = Settings(processes=1, memory=_CHECK_MEMORY, limit_s=_CHECK_S + _START_S)
        log = drive(load, [endpoint.body(0, prompt, 1)], endpoint.target(), timeout_s=_CHECK_S, settings=apart)
        if log.finished:
            return float(log.latencies("dispatched", "first_token")[0])
        failure, detail = classify_failure(log)
        if LOST_SENDER in detail:  # whatever the endpoint did, that our process ended shows no outage of it
            raise OSError(detail)
        if failure == "unreachable" and is_refusal_of_host(detail):
            failure = "server_error"
        raise EXCEPTIONS[failure](detail)


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
