"""Where a pipeline finds its server: in a variable of its own, or it says what is missing."""

from __future__ import annotations

import pytest

from plumbline.harness.inference import triton
from plumbline.harness.inference.models.retrieval.server import ADDRESS, Server
from plumbline.orchestration import leftovers


def test_the_variable_is_the_one_that_the_harness_sets_and_nobody_elses() -> None:
    assert triton._ADDRESS == ADDRESS
    # A server must inherit the mark of the Airflow that it runs under, or what that leaves behind is not found.
    assert ADDRESS != leftovers.MARK


def test_without_an_address_a_server_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(ValueError, match=f"{ADDRESS} is not set; expected host:port"):
        Server()
    monkeypatch.setenv(ADDRESS, "127.0.0.1:9")
    Server()
