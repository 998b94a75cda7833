"""Where the ranks of a job find each other."""

from __future__ import annotations

from typing import Any

from torch._C._distributed_c10d import TCPStore  # torch.distributed re-exports it untyped

from plumbline.harness.training.link import listening
from plumbline.harness.training.place import Address


def serve(host: str) -> tuple[TCPStore, int]:
    """The store through which ranks find each other, and its port: on loopback for a loopback `host`, else on every interface.

    It lives in the harness of node 0 and so outlives the ranks of one run: the next run's use other keys in it.
    """
    server = listening(Address(host, 0))
    port = int(server.getsockname()[1])
    # The socket is the store's from here on.
    made: dict[str, Any] = {"is_master": True, "wait_for_workers": False, "master_listen_fd": server.detach()}
    try:
        return TCPStore("localhost", port, **made), port
    except NotImplementedError:  # the libuv backend of older releases, such as 2.7, takes no socket
        return TCPStore("localhost", port, use_libuv=False, **made), port
