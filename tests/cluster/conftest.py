"""`make e2e` runs these tests against the cluster of KUBECONFIG; `make test` leaves them out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.world import World, world


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """The kubeconfig of an administrator of the test cluster."""
    given = os.environ.get("KUBECONFIG")
    if not given:
        pytest.skip("KUBECONFIG names no cluster")
    return Path(given)


@pytest.fixture(scope="session")
def e2e(kubeconfig: Path) -> Iterator[World]:
    with world(kubeconfig) as made:
        yield made
