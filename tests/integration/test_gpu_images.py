"""The GPU images, built by their own Dockerfiles over a stand-in for a vendor's base, and what runs in them as user 10001."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.images import ROOT, CannotBuild, Engine

pytestmark = [
    pytest.mark.full,  # a quarter of an hour; tests/integration/test_install_script.py tries the order of the packages in seconds
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        os.getuid() != 0 or not all(map(shutil.which, ("buildah", "debootstrap"))), reason="needs root, buildah and debootstrap"
    ),
]

STANDIN = ROOT / "tests" / "data" / "images" / "standin.Dockerfile"
PINNED = {"torch": "2.13.0", "numpy": "2.2.6", "pydantic": "2.11.10", "transformers": "4.57.3"}
VERSIONS = (
    "import json, importlib; import vllm; modules = {name: importlib.import_module(name) for name in %r}; "
    "print(json.dumps({name: [module.__version__.partition('+')[0], module.__file__] for name, module in modules.items()}))"
)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def builder() -> Engine:
    return Engine("buildah")


@pytest.fixture(scope="module")
def base(builder: Engine) -> str:
    tag = f"localhost/plumbline/standin:{PINNED['torch']}"
    builder.build(STANDIN, tag, builder.base("debootstrap"), TORCH=PINNED["torch"])
    return tag


@pytest.fixture(scope="module", params=["training", "inference"])
def inside(request: pytest.FixtureRequest, builder: Engine, base: str) -> Iterator[Run]:
    tag = f"localhost/plumbline/standin-{request.param}:test"
    arguments = {"ENGINE": "vllm"} if request.param == "inference" else {}
    builder.build(ROOT / "k8s" / "images" / f"{request.param}.Dockerfile", tag, base, **arguments)
    container = output("buildah", "from", tag)

    def run(*command: str) -> str:
        return output("buildah", "run", "--isolation", "chroot", "--user", "10001", container, "--", *command)

    yield run
    output("buildah", "rm", container)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_base_keeps_its_packages_and_the_harness_has_its_own(inside: Run) -> None:
    found = json.loads(inside("/opt/plumbline/bin/engine-python", "-c", VERSIONS % list(PINNED)).splitlines()[-1])
    assert {name: version for name, (version, _) in found.items()} == PINNED
    assert all(file.startswith("/usr/local/lib/python3.11/dist-packages/") for _, file in found.values())
    own = "import importlib.util as u, pydantic; print(pydantic.__file__, *(u.find_spec(name) for name in ('torch', 'vllm')))"
    file, torch, vllm = inside("python", "-c", own).split()
    assert (Path(file).parts[:3], torch, vllm) == (("/", "opt", "plumbline"), "None", "None")


def test_the_harness_runs_and_knows_what_computes(inside: Run) -> None:
    assert "--trial" in inside("python", "-m", "plumbline.harness", "run", "--help")
    assert inside("env", "-u", "USER", "-u", "LOGNAME", "python", "-c", "import getpass; print(getpass.getuser())") == "plumbline"
    code = "import json; from plumbline.harness.environment import software; print(json.dumps(software.software_facts()))"
    facts = json.loads(inside("python", "-c", code))
    assert {name: str(facts[f"{name}.version"]).partition("+")[0] for name in ("torch", "numpy", "transformers")} == {
        name: PINNED[name] for name in ("torch", "numpy", "transformers")
    }
    assert facts["vllm.version"] == "0.11.0"


def test_a_base_for_another_accelerator_or_without_the_engine_does_not_build(builder: Engine, base: str) -> None:
    with pytest.raises(CannotBuild, match="ROCm"):
        builder.build(ROOT / "k8s" / "images" / "training-rocm.Dockerfile", "localhost/plumbline/standin-rocm:test", base)
    with pytest.raises(CannotBuild, match="tensorrt_llm"):
        builder.build(ROOT / "k8s" / "images" / "inference.Dockerfile", "localhost/plumbline/no:test", base, ENGINE="tensorrt_llm")
