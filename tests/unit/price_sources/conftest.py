"""A provider of eight GPUs whose cloud, region and prices a test decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.fakes.trials import H100, cluster_provider

from plumbline.declarations import Provider

AT = datetime(2026, 11, 21, 6, 30, tzinfo=timezone.utc)


@pytest.fixture
def at() -> datetime:
    return AT


@pytest.fixture
def provider() -> Callable[..., Provider]:
    """provider(cloud="aws", …): eight H100 in a p5.48xlarge of us-east-1, with other fields where a test needs them."""

    def made(**fields: Any) -> Provider:
        here = {"cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge"} | fields
        return cluster_provider("eks-p5", accelerator=H100).model_copy(update=here)

    return made
