"""Support tickets that are answered in time."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.promise import register
from plumbline.declarations.promises.judging.response import RESPONSE_SHARE, ResponsePromise
from plumbline.metrics.units import Duration


@register
class SupportResponse(ResponsePromise):
    id = "support_response"
    fields: ClassVar = {
        "support_response": (Duration | None, Field(None, description="from a support ticket to its first answer, such as 1h")),
        **RESPONSE_SHARE,
    }
    order = 60
    noun = "support response"
    kind = "ticket"
    thing = "ticket"
