"""`make e2e` runs these tests against the cluster of KUBECONFIG; `make test` leaves them out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.cluster.world import World, world
from tests.fakes.exclusive_lock import LOCK_NAME, lock_of_this_run


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """The kubeconfig of an administrator of the test cluster."""
    given = os.environ.get("KUBECONFIG")
    if not given:
        pytest.skip("KUBECONFIG names no cluster")
    return Path(given)


@pytest.fixture(scope="session")
def e2e(kubeconfig: Path) -> Iterator[World]:
    """Tests of another run that need an idle machine wait until all of this is down."""
    beside = lock_of_this_run().hold(exclusive=False) if LOCK_NAME in os.environ else nullcontext()
    with beside, world(kubeconfig) as made:
        yield made
