"""What the package imports is what it requires: each room by its extra, pods by their lock, and our own lock within the ranges."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.source_trees import source_tree

from plumbline.cli.extras import CHOSEN, NEEDS, OTHER_NAMES
from plumbline.declarations.installation import PACKAGE, REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

assert REPOSITORY is not None
ROOT = REPOSITORY
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}

ROOMS = {"harness": "harness", "quality": "server", "dashboard": "server", "airflow": "airflow", "plugin": "airflow"}
"""Rooms that only an extra makes work; every other one can be imported from the bare package."""

# By import name, where neither the module's nor the distribution's own name says it.
DISTRIBUTIONS = OTHER_NAMES | {"google": "protobuf", "grpc": "grpcio", "pydantic_core": "pydantic", "yaml": "pyyaml"}
# PyTorch and what needs it: an image's base, or a person, brings the build that fits the machine (docs/package.md).
OF_THE_MACHINE = {
    *CHOSEN,
    "accelerate",
    "lightning",
    "peft",
    "tensorboard",
    "tensorrt_llm",
    "torchao",
    "triton_python_backend_utils",
    "vllm",
}
# Required, and not imported by name: plugins of fsspec and Airflow, and what is found by importlib.
UNNAMED = {"adlfs", "apache-airflow-providers-cncf-kubernetes", "apache-airflow-providers-slack", "apache-airflow-providers-standard"}
UNNAMED |= {"gcsfs", "nvidia-ml-py", "s3fs"}


# Files of ours that run beside their neighbours, without the package: in Triton, and in a training script's process.
OWN_SCRIPTS = {file.stem for folder in ("harness/inference/models", "reporter") for file in (PACKAGE / folder).glob("*.py")}
OWN_SCRIPTS |= {"computing_transformer"}  # as the backends write transformer.py beside a model


def names(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


@cache
def required(extra: str) -> frozenset[str]:
    """The base's and an extra's distributions, with those of extras that it names."""
    found = names(EXTRAS[""]) | names(EXTRAS[extra])
    for line in EXTRAS[extra]:
        for inner in Requirement(line).extras if Requirement(line).name == "plumbline" else ():
            found |= required(inner)
    return frozenset(found - {"plumbline"})


def imported(file: Path) -> Iterator[tuple[str, bool]]:
    """Each foreign module that a file imports, not for types alone, and whether it does when it is imported itself."""
    tree = source_tree(file.read_text(encoding="utf-8"))
    for_types = {
        id(inner) for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test) for inner in ast.walk(n)
    }
    late = {id(inner) for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) for inner in ast.walk(n)}
    for node in ast.walk(tree):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [str(node.module)]
        for module in (m.partition(".")[0] for m in modules if id(node) not in for_types):
            if module != "plumbline" and module not in sys.stdlib_module_names and module not in OWN_SCRIPTS:
                yield module, id(node) not in late


def distribution(module: str) -> str:
    return canonicalize_name(DISTRIBUTIONS.get(module, module))


@cache
def of_rooms() -> dict[str, dict[tuple[str, bool], list[str]]]:
    found: dict[str, dict[tuple[str, bool], list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(PACKAGE.rglob("*.py")):
        where = file.relative_to(PACKAGE)
        for key in imported(file):
            found[where.parts[0].removesuffix(".py")][key].append(str(where))
    return found


def undeclared(rooms: dict[str, dict[tuple[str, bool], list[str]]]) -> list[str]:
    anywhere = frozenset().union(*map(required, EXTRAS))
    wrong = []
    for room, modules in rooms.items():
        extra = ROOMS.get(room, "")
        for (module, early), files in modules.items():
            if module in OF_THE_MACHINE and (extra == "harness" or not early):
                continue
            allowed = required(extra) if early or extra else anywhere
            if distribution(module) not in allowed:
                wrong.append(f"{files[0]} imports {module}, which plumbline{f'[{extra}]' if extra else ''} does not require")
    return wrong


def test_every_import_is_declared_by_the_extra_of_its_room() -> None:
    assert undeclared(of_rooms()) == []


@pytest.mark.parametrize(
    ("room", "module", "early"),
    [("cli", "pyarrow", True), ("cli", "gevent", False), ("quality", "airflow", False), ("words", "torch", True)],
)
def test_an_import_that_its_extra_lacks_is_found(room: str, module: str, early: bool) -> None:
    assert undeclared({room: {(module, early): ["a.py"]}})
    assert not undeclared({"cli": {("pyarrow", False): ["a.py"], ("numpy", True): ["a.py"]}})


def test_every_requirement_is_imported() -> None:
    used = {distribution(module) for modules in of_rooms().values() for module, _ in modules}
    assert set().union(*map(required, EXTRAS)) - used == UNNAMED


def test_all_are_all_and_commands_need_extras_that_exist() -> None:
    assert required("all") == frozenset().union(*map(required, EXTRAS))
    assert {extra for extras in NEEDS.values() for extra in extras} <= set(EXTRAS)


def test_pods_hold_what_the_rooms_of_their_image_import() -> None:
    copied = set(re.findall(r"include/plumbline/(\w+)(?:\.py)?", (ROOT / "k8s" / "images" / "cpu.Dockerfile").read_text())) - {"py"}
    modules = {module for room in copied for module, _ in of_rooms()[room]} - OF_THE_MACHINE
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements" / "image.in").read_text().splitlines()]
    listed = names([line for line in lines if line and not line.startswith("-")])
    later = {"gpuhunt"}  # asked only where a declaration is checked
    assert listed == ({distribution(m) for m in modules} - later) | {"adlfs", "gcsfs", "nvidia-ml-py", "s3fs"}


def test_our_own_lock_is_within_the_ranges() -> None:
    lock = [
        Requirement(pin) for pin in re.findall(r"^([A-Za-z0-9][^\s#]*==[^\\\n]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    ]
    pinned = {canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in lock if r.marker is None or r.marker.evaluate()}
    every = [Requirement(line) for lines in EXTRAS.values() for line in lines]
    wrong = [
        f"{r} and {pinned.get(canonicalize_name(r.name))}"
        for r in every
        if r.name != "plumbline" and (r.marker is None or r.marker.evaluate())
        if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"))
    ]
    assert not wrong
