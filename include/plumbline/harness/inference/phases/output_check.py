"""The check of a trial's outputs: the reference's answers from a server of its own, then those of the server under test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from plumbline.declarations import InferenceWorkload, installation_paths
from plumbline.harness.inference.checkpoint import FetchedCheckpoint
from plumbline.harness.inference.client import Target
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer
from plumbline.harness.inference.phases import checkpoint_quality
from plumbline.harness.inference.phases.checkpoint_quality import ReferenceOutputs
from plumbline.harness.inference.phases.outputs import PromptTokens, TokenCounts, output_client
from plumbline.harness.inference.phases.task_evaluation import TaskEvaluator, task_evaluator
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.assembly import Place, assemble, with_provider_args
from plumbline.harness.inference.server.under_test import all_running
from plumbline.harness.measurement import EvidenceFile


@contextmanager
def loaded_tasks(record: TrialRecord, token: str | None) -> Iterator[TaskEvaluator | None]:
    """lm-eval with the workload's tasks, before anything is fetched or started; None if it declares none. `token`: of the hub.

    TrialFailed as of `task_evaluator`, and "bad_declaration" for tasks that the server cannot answer."""
    evaluation, access = record.workload.evaluation, record.trial.provider.launcher.model_access
    if evaluation is None or evaluation.lm_eval is None:
        yield None
        return
    record.report("cold_start", 0.0, "loading the tasks of lm-eval")
    cache = Path(access.cache) if access.cache else installation_paths().cache / "models"
    variables = {"HF_HOME": os.environ.get("HF_HOME", str(cache / "lm-eval"))}
    if token is not None:
        variables["HF_TOKEN"] = token
    if access.mirror is not None and access.mirror.startswith(("http://", "https://")):
        variables["HF_ENDPOINT"] = access.mirror
    with task_evaluator(evaluation.lm_eval, record.workdir, variables) as tasks:
        if record.trial.provider.launcher.hosted:
            tasks.require_generation()
        record.event("tasks_loaded")
        yield tasks


Reference = tuple[FetchedCheckpoint, InferenceWorkload]
"""The reference's files, and the workload that serves them."""


@dataclass
class OutputCheck:
    """Of the workload as its checkpoint resolved it. `tokens`: by the checkpoint's tokenizer; None: an external server reads text. `tasks`: of
    lm-eval, which ends with the check."""

    workload: InferenceWorkload
    tokens: PromptTokens | None = None
    reference: Reference | None = None
    answered: ReferenceOutputs | None = None
    tasks: TaskEvaluator | None = None

    @classmethod
    def of(cls, workload: InferenceWorkload, folder: Path, reference: Reference | None, tasks: TaskEvaluator | None) -> OutputCheck | None:
        """None if the workload declares neither quality nor evaluation. `folder`: of the served checkpoint.

        TrialFailed("bad_declaration") for a question that is too long for the model."""
        if workload.quality is None and workload.evaluation is None:
            return None
        tokens = PromptTokens(CheckpointTokenizer(folder, workload.model.context), folder)
        if workload.evaluation is not None and workload.model.context is not None:
            checkpoint_quality.check_questions(workload.evaluation, workload.model.context, tokens)
        if tasks is not None:
            tasks.context = workload.model.context
        return cls(workload, tokens, reference, tasks=tasks)

    def ask_reference(self, record: TrialRecord, place: Place) -> None:
        """Start the reference, if there is one, on the same engine, ask it, and stop it. TrialFailed as of a server under test."""
        if self.reference is None:
            return
        assert self.tokens is not None
        fetched, asked = self.reference[0], with_provider_args(self.reference[1], record.trial.provider)
        folder = place.workdir / "reference"
        folder.mkdir(parents=True, exist_ok=True)
        served = assemble(asked, replace(place, workdir=folder, cpus=place.cpus[:1], variables=place.variables[:1]), fetched.folder)
        record.report("cold_start", 0.0, f"starting {served.servers[0].program} with the reference in {asked.model.precision}")
        try:
            with all_running(served.servers):
                record.event("reference_ready")
                client = output_client(served.target(), self.tokens)
                self.answered = checkpoint_quality.ask_reference(client, asked, self.tokens, self.tasks)
        finally:
            log = served.servers[0].log
            if log.exists() and not record.private_texts:
                record.result.evidence.append(EvidenceFile("reference_log", log.rename(place.workdir / "reference.log")))
        record.event("reference_stopped")

    def check(self, record: TrialRecord, target: Target) -> int:
        """Ask the server under test and record what its outputs are worth; the number of requests that it answered."""
        record.report("cold_start", 0.0, "checking the outputs")
        counted: list[TokenCounts] = []
        client = output_client(target, self.tokens, counted.append)
        try:
            found = checkpoint_quality.check(client, self.workload, self.tokens, self.answered, record.workdir, self.tasks)
        finally:
            if record.workload.server.backend == "external":
                for counts in counted:  # a hosted model bills them as it bills the load's
                    record.usage.add_answer("cold_start", counts)
        if self.tasks is not None:
            self.tasks.close()  # nothing of it stays beside the load
        record.event("outputs_checked")
        record.result.metrics += found.rows
        record.result.judgements += found.judgements
        record.result.evidence += found.evidence
        record.result.facts |= found.facts
        return found.asked
