"""Create the result store's bucket if it does not exist."""

from __future__ import annotations

import sys

from plumbline.declarations import installation_paths
from plumbline.declarations.addresses import open_filesystem

OK, FAILED = 0, 1


def main() -> int:
    """OK if the bucket of PLUMBLINE_RESULTS_URL exists and can be listed, else FAILED with the store's message."""
    url = installation_paths().results_url
    try:
        store, path = open_filesystem(url)
        bucket = path.split("/", 1)[0]
        if not store.exists(bucket):
            store.mkdir(bucket)
        store.ls(bucket, refresh=True)
    except Exception as error:  # noqa: BLE001 (every store has its own errors)
        sys.stderr.write(f"the result store {url} cannot be used: {error}\n")
        return FAILED
    sys.stdout.write(f"the bucket of {url} exists\n")
    return OK


if __name__ == "__main__":
    sys.exit(main())
