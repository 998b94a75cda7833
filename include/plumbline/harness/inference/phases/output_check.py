"""The check of a trial's outputs: the reference's answers from a server of its own, then those of the server under test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.checkpoint import FetchedCheckpoint
from plumbline.harness.inference.client import Target
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer
from plumbline.harness.inference.phases import checkpoint_quality
from plumbline.harness.inference.phases.checkpoint_quality import ReferenceOutputs
from plumbline.harness.inference.phases.outputs import PromptTokens, output_client
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.assembly import Place, assemble, with_provider_args
from plumbline.harness.inference.server.under_test import all_running
from plumbline.harness.measurement import EvidenceFile

Reference = tuple[FetchedCheckpoint, InferenceWorkload]
"""The reference's files, and the workload that serves them."""


@dataclass
class OutputCheck:
    """Of the workload as its checkpoint resolved it. `tokens`: by the checkpoint's tokenizer; None: an external server reads text."""

    workload: InferenceWorkload
    tokens: PromptTokens | None = None
    reference: Reference | None = None
    answered: ReferenceOutputs | None = None

    @classmethod
    def of(cls, workload: InferenceWorkload, folder: Path, reference: Reference | None) -> OutputCheck | None:
        """None if the workload declares neither quality nor evaluation. `folder`: of the served checkpoint.

        TrialFailed("bad_declaration") for a question that is too long for the model."""
        if workload.quality is None and workload.evaluation is None:
            return None
        tokens = PromptTokens(CheckpointTokenizer(folder, workload.model.context), folder)
        if workload.evaluation is not None and workload.model.context is not None:
            checkpoint_quality.check_questions(workload.evaluation, workload.model.context, tokens)
        return cls(workload, tokens, reference)

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
                self.answered = checkpoint_quality.ask_reference(client, asked, self.tokens)
        finally:
            log = served.servers[0].log
            if log.exists() and not record.private_texts:
                record.result.evidence.append(EvidenceFile("reference_log", log.rename(place.workdir / "reference.log")))
        record.event("reference_stopped")

    def check(self, record: TrialRecord, target: Target) -> int:
        """Ask the server under test and record what its outputs are worth; the number of requests that it answered."""
        record.report("cold_start", 0.0, "checking the outputs")
        client = output_client(target, self.tokens)
        found, evidence = checkpoint_quality.check(client, self.workload, self.tokens, self.answered, record.workdir)
        record.event("outputs_checked")
        record.result.metrics += found.rows
        record.result.judgements += found.judgements
        record.result.evidence += evidence
        return found.asked
