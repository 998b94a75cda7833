"""Requests for more quota that are answered in time."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.promise import register
from plumbline.declarations.promises.judging.response import RESPONSE_SHARE, ResponsePromise
from plumbline.metrics.units import Duration


@register
class QuotaResponse(ResponsePromise):
    id = "quota_response"
    fields: ClassVar = {
        "quota_response": (Duration | None, Field(None, description="from a request for more quota to its first answer, such as 2d")),
        **RESPONSE_SHARE,
    }
    order = 70
    noun = "quota response"
    kind = "quota"
    thing = "quota request"
