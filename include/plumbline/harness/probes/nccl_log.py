"""Which network NCCL chose, out of what it writes with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET."""

from __future__ import annotations

import re

_CHANNEL = re.compile(r"\[(?:send|receive)\] via NET/(?P<net>[^\n]+?)/\d+(?P<direct>/GDRDMA)?")
_CHOSEN = re.compile(r"NCCL INFO Using network (?P<net>[^\n]+)")


def transport(log: str) -> str | None:
    """Such as `NET/IB, GPUDirect RDMA`, `NET/AWS Libfabric` or `NET/Socket`; None if the log does not say.

    What a channel between nodes goes by counts before what was chosen at the start: the channel also tells of GPUDirect. Of several the
    names are listed.
    """
    channels = {(match["net"], match["direct"] is not None) for match in _CHANNEL.finditer(log)}
    if channels:
        return "; ".join(f"NET/{net}{', GPUDirect RDMA' if direct else ''}" for net, direct in sorted(channels))
    chosen = sorted({match["net"].strip() for match in _CHOSEN.finditer(log)})
    return "; ".join(f"NET/{net}" for net in chosen) or None
