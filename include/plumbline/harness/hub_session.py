"""HTTP of huggingface_hub: a token that would cross a network unencrypted is not sent."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from plumbline.declarations.urls import sends_in_clear

if TYPE_CHECKING:
    from httpx2 import Client, Request


class TokenInClear(PermissionError):
    """A request to an address over plain HTTP had a token."""


@cache
def guard_hub_session() -> None:
    """To be called before the hub's functions. Also covers redirects, and the token that huggingface_hub finds by itself."""
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    def make() -> Client:
        client: Client = default_client_factory()
        client.event_hooks["request"].append(_refuse_token_in_clear)
        return client

    set_client_factory(make)


def _refuse_token_in_clear(request: Request) -> None:
    url = str(request.url)
    if "authorization" in request.headers and sends_in_clear(url):
        raise TokenInClear(f"{request.url.host} would get the token over plain http; expected https://, or a mirror without a token")
