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
from plumbline.harness.inference.server.assembly import Place, assemble
from plumbline.harness.inference.server.under_test import all_running
from plumbline.harness.measurement import EvidenceFile


@dataclass
class OutputCheck:
    """Of the workload as its checkpoint resolved it. `folder`: of the checkpoint; None: an external server's."""

    workload: InferenceWorkload
    folder: Path | None = None
    reference_folder: Path | None = None
    tokens: PromptTokens | None = None
    reference: ReferenceOutputs | None = None

    @classmethod
    def of(cls, workload: InferenceWorkload, fetched: FetchedCheckpoint, reference: FetchedCheckpoint | None = None) -> OutputCheck | None:
        """None if the workload declares neither quality nor evaluation. `reference`: its files, where they are not the model's own."""
        if workload.quality is None and workload.evaluation is None:
            return None
        tokens = PromptTokens(CheckpointTokenizer(fetched.folder, workload.model.context), fetched.folder)
        return cls(workload, fetched.folder, (reference or fetched).folder, tokens)

    def ask_reference(self, record: TrialRecord, place: Place) -> None:
        """Start the reference on the same engine, ask it, and stop it. TrialFailed as of a server under test."""
        assert self.tokens is not None
        asked = checkpoint_quality.reference_workload(self.workload)
        folder = place.workdir / "reference"
        folder.mkdir(parents=True, exist_ok=True)
        served = assemble(asked, replace(place, workdir=folder, cpus=place.cpus[:1], variables=place.variables[:1]), self.reference_folder)
        record.report("cold_start", 0.0, f"starting {served.servers[0].program} with the reference in {asked.model.precision}")
        try:
            with all_running(served.servers):
                record.event("reference_ready")
                client = output_client(served.target(), self.tokens)
                self.reference = checkpoint_quality.ask_reference(client, asked, self.tokens)
        finally:
            log = served.servers[0].log
            if log.exists() and not record.private_texts:
                record.result.evidence.append(EvidenceFile("reference_log", log.rename(place.workdir / "reference.log")))
        record.event("reference_stopped")

    def check(self, record: TrialRecord, target: Target) -> int:
        """Ask the server under test and record what its outputs are worth; the number of requests that it answered."""
        record.report("cold_start", 0.0, "checking the outputs")
        client = output_client(target, self.tokens)
        found, evidence = checkpoint_quality.check(client, self.workload, self.tokens, self.reference, record.workdir)
        record.event("outputs_checked")
        record.result.metrics += found.rows
        record.result.judgements += found.judgements
        record.result.evidence += evidence
        return found.asked
