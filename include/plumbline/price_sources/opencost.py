"""Cost of our pods on a cluster, from OpenCost's allocation API."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from plumbline.declarations import Provider
from plumbline.declarations.providers.provider import OpencostSource
from plumbline.formats.reading.foreign_number import ForeignNumber, number
from plumbline.price_sources.base import NoPrice, PriceSourceDown
from plumbline.results.price_reading import Reading

_LEAST = {"gpuHours": 0.01, "cpuCoreHours": 0.0002}
"""USD of an hour below which OpenCost knows no price of the nodes: a tenth of the cheapest offers of a GPU and of a core."""
_LONGEST = 32 * 2**20
"""Bytes of an answer that is read: some 20,000 allocations."""
_LABEL = "plumbline_provider"
"""The label plumbline/provider, which every pod of a trial carries, as Prometheus and so OpenCost spell it."""
_UNPRICED = "give OpenCost the nodes' prices: its cloud integration or custom pricing"


class OpencostPrices:
    """Cost over accelerator hours of the pods of one provider in one namespace: what was paid, not what a list says. `timeout_s`: how long OpenCost may take."""

    def __init__(self, declared: OpencostSource, timeout_s: float = 60.0) -> None:
        self._declared = declared
        self._timeout_s = timeout_s

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """One reading, USD per GPU-hour (per core-hour on a CPU provider) over the window that ends with the hour of `at`.

        Raises PriceSourceDown if OpenCost does not answer as OpenCost does; NoPrice if it knows no such pod, no accelerator hours or no cost.
        """
        until = at.replace(minute=0, second=0, microsecond=0)
        since = until - timedelta(seconds=self._declared.window)
        window = f"{since:%Y-%m-%dT%H:%M:%SZ},{until:%Y-%m-%dT%H:%M:%SZ}"
        hours_of = "cpuCoreHours" if provider.accelerator.kind == "cpu" else "gpuHours"
        part_of = "cpuCost" if hours_of == "cpuCoreHours" else "gpuCost"
        cost = hours = 0.0
        part: float | None = None  # OpenCost's cost of the accelerators alone, where it gives one
        rows = [row for row in self._allocations(provider, window) if self._is_of_provider(row, provider)]
        for row in rows:
            try:
                cost, hours = cost + number(row["totalCost"]), hours + number(row[hours_of])
                part = number(row[part_of]) + (part or 0.0) if part_of in row else part
            except (KeyError, TypeError, ForeignNumber) as error:
                raise self._unexpected(provider, f"an allocation without totalCost and {hours_of} as numbers ({error})") from error
        where = f"pods of plumbline/provider={provider.name} in namespace {self._declared.namespace} within {window}"
        if not rows:
            raise NoPrice("opencost", provider.name, f"no {where}", "run a trial there, widen window, or correct namespace")
        if not hours > 0:
            why = f"no {hours_of} of {where}"
            raise NoPrice("opencost", provider.name, why, "expected pods that request accelerators, and their metrics in Prometheus")
        if not cost > 0:
            why = f"no cost of {where}"
            raise NoPrice("opencost", provider.name, why, _UNPRICED)
        if (cost if part is None else part) / hours < _LEAST[hours_of]:
            named = "a total cost" if part is None else f"a {part_of}"
            why = (
                f"{named} of {cost if part is None else part:.4g} USD for {hours:g} {hours_of} of {where}, so it has no price of the nodes"
            )
            raise NoPrice("opencost", provider.name, why, _UNPRICED)
        purchase, count = self._declared.purchase, provider.accelerator.count
        return [Reading(provider.name, purchase, None, "opencost", f"allocation {window}", at, cost / hours, "USD", "gpu_hour", count)]

    def _is_of_provider(self, row: dict[str, Any], provider: Provider) -> bool:
        # OpenCost joins what it aggregates by: namespace/value, in older versions namespace/label=value.
        namespace, _, labelled = str(row.get("name", "")).partition("/")
        return namespace == self._declared.namespace and labelled.removeprefix(f"{_LABEL}=") == provider.name

    def _allocations(self, provider: Provider, window: str) -> list[dict[str, Any]]:
        import httpx

        # Filtered here, not there: OpenCost learnt to filter only in 2025.
        words = {"window": window, "aggregate": f"namespace,label:{_LABEL}", "accumulate": "true", "includeIdle": "false"}
        remedy = "check that OpenCost runs and that `url` in price_sources reaches it"
        address = f"{self._declared.url.rstrip('/')}/allocation"
        body = b""
        try:
            with httpx.stream("GET", address, params=words, timeout=self._timeout_s, headers={"Accept-Encoding": "identity"}) as answer:
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise self._unexpected(provider, "a compressed body, which was not asked for")
                for piece in answer.iter_raw():
                    body += piece
                    if len(body) > _LONGEST:
                        raise self._unexpected(provider, f"more than {_LONGEST:,} bytes")
        except httpx.HTTPError as error:
            raise PriceSourceDown("opencost", provider.name, f"{self._declared.url} does not answer ({error!r})", remedy) from error
        if answer.status_code != 200:
            said = body.decode("utf-8", "replace").strip()[:200]
            raise PriceSourceDown("opencost", provider.name, f"{self._declared.url} answers {answer.status_code}: {said}", remedy)
        try:
            content = json.loads(body)
            return [row for allocations in content["data"] for row in (allocations or {}).values()]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._unexpected(provider, "no JSON with a list `data` of allocations") from error

    def _unexpected(self, provider: Provider, what: str) -> PriceSourceDown:
        return PriceSourceDown(
            "opencost", provider.name, f"{self._declared.url}/allocation answers {what}", "expected OpenCost's API there, such as port 9003"
        )
