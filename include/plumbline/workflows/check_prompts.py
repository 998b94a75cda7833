"""Check a workload's own prompts without a server: fetch them, render and tokenise them, and compare each with the model's context."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.prompts import selection_hash
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.load.own_prompts import OwnPrompts, selected_rows
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer, tokenizer_of


@dataclass(frozen=True)
class CheckedPrompts:
    """`prompts`: rows of the sample; `requests`: their turns. `tokens`: min, p50, p95, max of the requests; None without a tokenizer."""

    workload: str
    prompts: int
    requests: int
    tokens: tuple[int, int, int, int] | None
    context: int | None
    sha256: str


def check_prompts(workload: InferenceWorkload, tokenizer: Path | None = None) -> CheckedPrompts:
    """`tokenizer`: a checkpoint's folder, for a model whose own is not on this machine, and for an external server.

    Raises UnusableFile as a trial would, ValueError for a tokenizer that cannot be loaded, and FetchFailed."""
    declared = workload.requests.prompts
    if declared is None:
        raise UnusableFile(f"{workload.name} has no requests.prompts; expected a workload that brings its own")
    rows = selected_rows(declared)
    known = tokenizer_of(workload, None) if tokenizer is None else CheckpointTokenizer(tokenizer, workload.model.context)
    own = OwnPrompts(workload, rows, known)
    own.check()
    lengths = own.lengths()
    tokens = None
    if known is not None:
        low, median, high, top = (int(q) for q in np.quantile(lengths, (0, 0.5, 0.95, 1), method="inverted_cdf"))
        tokens = low, median, high, top
    return CheckedPrompts(workload.name, len(rows), len(lengths), tokens, known.context if known else None, selection_hash(rows))
