"""The part of a result document from which a trial's time and tokens are known."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from plumbline.declarations import Trial
from plumbline.results.document import Event, LaunchRecord, Many
from plumbline.results.token_usage import TokenUsage


class HeldPart(BaseModel):
    """A trial's times and token counts, read from its document without numbers and checksum in a tenth of the time."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    trial: Trial
    timeline: Many[Event] = ()
    usage: Many[TokenUsage] = ()
    launch: LaunchRecord | None = None
