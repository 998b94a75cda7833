"""A request to the API server, taken apart, and the patterns by which tests mean requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

ROUTE = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?/?$"
)


@dataclass(frozen=True)
class Call:
    """One request as it came in. `code` is the answer's; None while it is worked on, or if the connection was cut."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    code: int | None


@dataclass
class Fault:
    """What goes wrong with the next `times` requests that match; `after_work`: the answer is lost, the work is done."""

    code: int
    times: int
    match: str
    retry_after: int | None
    message: str | None
    cut: bool
    after_work: bool


@dataclass
class Asked:
    """A request, taken apart."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    accept: str = ""
    namespace: str | None = None
    plural: str = ""
    name: str = ""
    sub: str = ""
    group_version: str = "v1"
    answer_headers: dict[str, str] = field(default_factory=dict)

    @property
    def verb(self) -> str:
        if self.method == "GET":
            return "get" if self.name else "watch" if self.query.get("watch") in ("true", "True", "1") else "list"
        if self.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return {"POST": "create", "PATCH": "patch", "PUT": "update"}[self.method]

    @property
    def resource(self) -> str:
        """As `kubectl auth can-i` names it: pods, pods/log, jobsets.jobset.x-k8s.io."""
        group = self.group_version.rpartition("/")[0]
        return self.plural + (f".{group}" if group else "") + (f"/{self.sub}" if self.sub else "")


def matches(pattern: str, asked: Asked) -> bool:
    """Whether a request is meant by a pattern such as `GET /api/v1/namespaces/*/pods*` (with its query) or `*`."""
    query = "&".join(f"{key}={value}" for key, value in asked.query.items())
    line = f"{asked.method} {asked.path}"
    return fnmatchcase(line, pattern) or fnmatchcase(f"{line}?{query}", pattern)
