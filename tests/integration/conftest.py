"""A Slack that listens on loopback, and its own client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slack_sdk import WebClient
from tests.fakes.fake_slack import FakeSlack


@pytest.fixture
def server() -> Iterator[FakeSlack]:
    with FakeSlack() as fake:
        yield fake


@pytest.fixture
def client(server: FakeSlack) -> WebClient:
    return WebClient(token=server.token, base_url=server.url, retry_handlers=[], timeout=5)
