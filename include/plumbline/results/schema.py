"""The document's JSON Schema, made from the model: `python -m plumbline.results.schema > FILE` writes it."""

from __future__ import annotations

import json
import sys

from plumbline.results.document import SCHEMA_VERSION, ResultDocument

FILE_NAME = f"result-v{SCHEMA_VERSION}.schema.json"


def schema_text() -> str:
    """The schema with sorted keys: the same model gives the same bytes."""
    schema = ResultDocument.model_json_schema(mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"Plumbline result document, version {SCHEMA_VERSION}"
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
