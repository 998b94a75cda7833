"""Names of declarations made from a publisher's words."""

from __future__ import annotations

import re

_UNSAFE_IN_NAME = re.compile(r"[^a-z0-9]+")


def slug(text: str) -> str:
    """A name as declarations have them: `NVIDIA H200-SXM5-141GB` is `nvidia-h200-sxm5-141gb`. ValueError if nothing remains."""
    name = _UNSAFE_IN_NAME.sub("-", text.lower()).strip("-")
    if not name:
        raise ValueError(f'"{text}" holds no letter or digit; expected a name')
    return name
