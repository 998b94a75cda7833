"""The document's JSON Schema, generated from the model and kept in the repository: `python -m plumbline.results.schema --write`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from plumbline.results.document import SCHEMA_VERSION, ResultDocument

FILE = Path(__file__).with_name(f"result-v{SCHEMA_VERSION}.schema.json")


def generated() -> str:
    """The schema as text, keys sorted, so that the same model gives the same bytes."""
    schema = ResultDocument.model_json_schema(mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"Plumbline result document, version {SCHEMA_VERSION}"
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or say whether it is up to date."""
    if "--write" in sys.argv[1:]:
        FILE.write_text(generated(), encoding="utf-8")
        return 0
    if FILE.read_text(encoding="utf-8") == generated():
        return 0
    sys.stderr.write(f"{FILE.name} differs from the model; run: python -m plumbline.results.schema --write\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
