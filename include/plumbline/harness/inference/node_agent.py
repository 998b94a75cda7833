"""Another node's part of a served model: it fetches the model, starts the engine's part on request, watches and stops it."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from multiprocessing.connection import wait
from pathlib import Path

from plumbline.declarations import InferenceWorkload, Trial, installation_paths
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.harness import engine_python, image_requirements, launcher_protocol
from plumbline.harness.environment.container import oom_kills
from plumbline.harness.environment.cpu import allotted_cores
from plumbline.harness.gang.channel import Channel, Message
from plumbline.harness.gang.node_agent import NodeAgent, log
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.inference.checkpoint import fetch_for_trial
from plumbline.harness.inference.server.assembly import openai_model
from plumbline.harness.inference.server.local_server import HOST, free_port
from plumbline.harness.inference.server.nodes import gang_environment, node_address, node_placeholders
from plumbline.harness.inference.server.openai_server import OpenAiModel, command_line
from plumbline.harness.inference.server.process import ServerLog, ServerProcess
from plumbline.results import FailureClass, Scalar

_TURN_S = 0.1
_LOG_BYTES = 256 * 1024
_ENGINES = ("vllm", "sglang", "torch", "transformers")
_REPORTED = re.compile(r"^(gpu\.(count|\d+\.product|\d+\.memory)|driver\.|cuda\.|rocm\.)")
"""Facts of a node that could differ from node 0's and explain a number."""


class ServingNode(NodeAgent):
    def __init__(self, trial: Trial, topology: Topology, link: Channel, folder: Path, gpus: GpuPhaseMonitor) -> None:
        super().__init__(trial, topology, link, folder, gpus)
        workload = trial.workload
        assert isinstance(workload, InferenceWorkload)
        self._workload = workload
        self._credentials = launcher_protocol.take_models_credentials()  # before anything is started that would inherit them
        self._model: OpenAiModel | None = None
        self._process = ServerProcess()
        self._log = ServerLog(folder / "engine.log")
        self._start: int | None = None
        """Number of the start that runs; None before it and after its end."""
        self._oom_kills = oom_kills()

    def _prepare(self) -> str:
        return self._trial.spec_hash

    def _wait(self) -> None:
        wait([self._link.fileno()], _TURN_S)

    def _handle(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "prepare":
            self._fetch()
        elif kind == "start":
            self._before_start.close()
            self._stop()
            self._run(message["number"], Address(message["host"], int(message["port"])))
        elif kind == "serving" and self._process.running():
            self._process.refresh_children()
        elif kind == "stop":
            self._stop()
            self._link.send("stopped", log=self._log_end())

    def _check(self) -> str | None:
        if self._start is not None and not self._process.running():
            number, self._start = self._start, None
            failure_class, detail = self._ended()
            log(detail)
            # Node 0 decides; it may have asked for the end at the same moment.
            self._link.send("failed", failure_class=failure_class, detail=detail, certain=True, passing=False, start=number)
        return None

    def end(self) -> None:
        super().end()
        self._start = None
        self._process.close()

    def _fetch(self) -> None:
        workload, manifest = self._workload, ""
        folder = None
        if isinstance(workload.model, Checkpoint):
            access = self._trial.provider.launcher.model_access
            cache = Path(access.cache) if access.cache else installation_paths().cache / "models"
            fetched, workload = fetch_for_trial(workload, self._trial.provider, cache, access.mirror, self._credentials, log)
            folder, manifest = fetched.folder, fetched.manifest.sha256
        self._model = openai_model(workload, self._folder, allotted_cores(), folder)
        self._link.send("prepared", manifest=manifest, facts=self._reported_facts())

    def _run(self, number: int, leader: Address) -> None:
        assert self._model is not None
        options, place = self._workload.server, self._topology
        assert options.command is not None
        command, field = options.worker_command or options.command, "worker_command" if options.worker_command else "command"
        environment = gang_environment(node_address(self._link.local_host))
        values = {**self._model.placeholders(f"{HOST}:{free_port()}"), **node_placeholders(place.node, place.nodes, leader)}
        self._log.begin()
        self._process.start(command_line(command, values, environment, f"server.{field}"), environment, self._log.path)
        self._start = number
        log(f"started {Path(command[0]).name} as node {place.node} of {place.nodes}, with the first one at {leader}")

    def _stop(self) -> None:
        self._start = None
        self._process.stop()

    def _ended(self) -> tuple[FailureClass, str]:
        """Class and detail of an engine that ended by itself."""
        program = Path((self._workload.server.worker_command or self._workload.server.command or ("engine",))[0]).name
        detail = f"{program} {self._process.state()}; {self._log.last_errors()}"
        if (oom_kills() or 0) > (self._oom_kills or 0):
            return "out_of_memory", f"{detail}; the kernel killed a process for lack of memory"
        return ("image_error" if image_requirements.find_image_fault(self._log.text()) else "server_error"), detail

    def _log_end(self) -> str:
        prompts = self._workload.requests.prompts
        if prompts is not None and prompts.private:
            return "(not stored, because the prompts are private)\n"
        return self._log.path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace") if self._log.path.exists() else ""

    def _reported_facts(self) -> dict[str, Scalar]:
        python = engine_python.describe()
        reported = {name: value for name, value in self.facts.items() if _REPORTED.match(name) and value is not None}
        installed = {item.name.lower(): item.version for item in distributions(path=list(python.search_path))}
        return {**reported, **{f"engine.{name}": installed[name] for name in _ENGINES if name in installed}}
