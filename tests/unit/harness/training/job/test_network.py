"""The interface that the nodes share."""

from __future__ import annotations

import psutil
import pytest

from plumbline.harness.gang.channel import gloo_environment


def test_the_interface_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    (loopback,) = [name for name, found in psutil.net_if_addrs().items() if any(a.address == "127.0.0.1" for a in found)]
    assert gloo_environment("127.0.0.1") == gloo_environment("::ffff:127.0.0.1") == {"GLOO_SOCKET_IFNAME": loopback}
    assert gloo_environment("192.0.2.77") == {}, "nobody has it: gloo decides"


def test_what_was_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert gloo_environment("127.0.0.1") == {}
