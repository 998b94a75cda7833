"""How much of the reference's output quality a faster precision must keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.models import ServingPrecision
from plumbline.metrics.units import Percent

MAX_TEXT_BYTES = 256 * 2**10


class Quality(Declared):
    """How much of the reference precision's output a faster precision must keep, on a fixed set of prompts.

    `reference`: a precision of the same model, or a checkpoint that the same engine serves.
    `agreement`: share of tokens that are the reference's, each predicted after the reference's own tokens (teacher forcing); of embeddings
    the least cosine similarity of any vector with the reference's; of rerankers the correlation of the scores with the reference's.
    Of checkpoints also: `log_probability_difference`, the mean over the reference's tokens (nats, absolute), and `perplexity_increase` on
    the text file `text` in `evaluations/` beside the declarations, whose content travels in the trial as `passage`.
    """

    reference: ServingPrecision | Checkpoint = "fp32"
    agreement: Percent = Field(gt=0, le=1)
    prompts: int = Field(16, ge=4, le=1024)
    log_probability_difference: float | None = Field(None, gt=0, description="at most so many nats")
    text: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.txt$")
    perplexity_increase: Percent | None = Field(None, gt=0, description="at most so much above the reference's")
    passage: str | None = None

    @property
    def reference_precision(self) -> ServingPrecision:
        """Of the reference's weights."""
        return self.reference if isinstance(self.reference, str) else self.reference.precision

    @model_validator(mode="after")
    def _with_text(self) -> Quality:
        if self.perplexity_increase is not None and self.text is None:
            raise ValueError("perplexity_increase without text; expected the name of a .txt file in evaluations/")
        return self


def load_passage(data: Any, folder: Path) -> list[tuple[tuple[str | int, ...], str]]:
    """Add the content of `quality.text` to an inference workload's data; its problems, by field."""
    declared = data.get("quality") if isinstance(data, dict) else None
    if not isinstance(declared, dict) or "text" not in declared:
        return []
    field = ("quality", "text")
    if "passage" in declared:
        return [(("quality", "passage"), "the passage is read from the file; expected text alone")]
    try:
        name = Quality.model_validate_json(json.dumps(declared)).text
    except (TypeError, ValidationError):
        return []  # its own check reports it
    try:
        content = (folder / str(name)).read_text(encoding="utf-8-sig")
    except OSError as error:
        return [(field, f"{name} cannot be read ({error.strerror}); expected a file in {folder.name}/")]
    except UnicodeDecodeError as error:
        return [(field, f"{name} is not UTF-8 text ({error.reason} at byte {error.start}); expected a text file")]
    if not content.strip() or len(content.encode()) > MAX_TEXT_BYTES:
        return [(field, f"{name} has {len(content.encode()):,} bytes of text; expected some, at most {MAX_TEXT_BYTES:,}")]
    declared["passage"] = content
    return []
