"""URLs in declarations and settings: what they may not hold, and where a key must not go."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from plumbline.declarations.base import is_archived

STORE_URL_PATTERN = r"^((s3|gs|gcs|az|abfs|abfss)://[A-Za-z0-9]|file:///)[^?#\s\x00]*$"
"""Pattern of a result store's URL. Other schemes of fsspec fetch web pages, run commands over SSH or chain file systems."""

_USER = re.compile(r"://[^/?#]*@")
_CONTAINER = re.compile(r"^(az|abfss?)://[a-z0-9$][a-z0-9-]*@[^@/]+(/|$)")
"""Azure's container@account, the only @ that names no user."""
_UNFIT = re.compile(r"[?#\x00-\x1f\x7f]")


def url_problem(url: str) -> str | None:
    """What a URL holds that results, pages and logs must not show, or None. A path of this machine holds no secret."""
    if "://" not in url or url.startswith("file:///"):
        return None
    if _USER.search(url) and not _CONTAINER.match(url):
        return "has a user or password"
    return "has a query or a fragment" if _UNFIT.search(url) else None


def url_refusal(url: str) -> str | None:
    """What is wrong with a declared URL, and what is expected, in a sentence that does not quote it; None if nothing is."""
    if (problem := url_problem(url)) is None:
        return None
    return (
        f"{problem}, which results, pages and logs would show; expected the address alone, such as https://host/path or s3://bucket/folder, "
        "and a secret in a connection or Secret"
    )


def _without_secrets(value: object) -> object:
    if isinstance(value, str) and not is_archived() and (problem := url_refusal(value)):
        raise ValueError(problem)
    return value


DeclaredUrl = Annotated[str, BeforeValidator(_without_secrets)]
"""The type of every declared URL: without user, password, query (such as a signature) and fragment. Its error does not quote the URL."""
StoreUrl = Annotated[DeclaredUrl, Field(pattern=STORE_URL_PATTERN)]


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine: localhost, 127.0.0.0/8 or ::1."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a host name, which may begin with 127.
        return False


def is_of_the_node(address: str) -> bool:
    """Whether an address, with a scheme or without, is one of the machine that asks: loopback, or link-local, where clouds give out the node's
    credentials."""
    url = address if "//" in address else f"//{address}"
    try:
        host = urlsplit(url).hostname or ""
        return host in ("metadata", "metadata.google.internal") or is_loopback(url) or ip_address(host).is_link_local
    except ValueError:  # a host name
        return False


def sends_in_clear(url: str) -> bool:
    """Whether a key that goes to this URL crosses a network unencrypted."""
    return url.partition("://")[0].lower() in ("http", "grpc") and not is_loopback(url)
