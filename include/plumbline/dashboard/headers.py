"""Headers that every answer of a route carries, a refusal or an error that it tells too: what is private is kept by nobody, and is what it says
it is. Only the bare words of a 500, when the app itself is at fault, go without."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DEFAULTS = {
    # Without it a browser may keep a report, and a proxy a "not found", for as long as they guess.
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    # Slack and publishers of results need not know which page somebody came from.
    "Referrer-Policy": "same-origin",
}
"""A route that sets one of these itself keeps its own."""


class Headers:
    """ASGI middleware that adds `DEFAULTS` to each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULTS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
