"""The one gate for addresses that the archive holds: whoever reads a file by such an address asks here first.

A row of the archive may come from another archive. fsspec would fetch any web page, device or chain of file systems that it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from plumbline.declarations import load_upkeep, places
from plumbline.declarations.upkeep import ADDRESS
from plumbline.results.reading import BadResult

_ADDRESS = re.compile(ADDRESS)


def declared() -> tuple[str, ...]:
    """The stores that may be read: the installation's own, and `evidence.stores` of upkeep.yaml."""
    return tuple(url.rstrip("/") for url in (places().results_url, *load_upkeep().evidence.stores))


def permitted(address: str, stores: Sequence[str] | None = None) -> str:
    """The address itself, of one of these stores (default: `declared`) or of what lies below; BadResult for any other."""
    well_formed(address)
    if not any(f"{address}/".startswith(f"{store}/") for store in (declared() if stores is None else stores)):
        raise BadResult(
            f"{address} lies outside of the declared result stores and is not read; expected PLUMBLINE_RESULTS_URL or one of evidence.stores "
            "in upkeep.yaml"
        )
    return address


def well_formed(address: str) -> str:
    """The address itself; BadResult if it is not of a store's scheme, or leads out of its store."""
    if not _ADDRESS.fullmatch(address) or "::" in address or not set(address.split("/")).isdisjoint((".", "..")):
        raise BadResult(f"{address!r} is no address of a result store; expected file://, s3://, gs:// or abfs:// without ..")
    return address
