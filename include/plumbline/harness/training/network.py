"""Which network the ranks of a job use."""

from __future__ import annotations

import os

import psutil

_GLOO = "GLOO_SOCKET_IFNAME"


def gloo_interface(address: str) -> dict[str, str]:
    """The variable that makes gloo use the interface of a local IP address: the one through which the nodes reach each other.

    Without it gloo takes the address of the host's name, and loopback where that has none. Empty if the variable is set already.
    """
    plain = address.removeprefix("::ffff:")
    if _GLOO in os.environ:
        return {}
    return next(({_GLOO: name} for name, found in psutil.net_if_addrs().items() if any(item.address == plain for item in found)), {})
