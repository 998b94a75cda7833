"""The variables that pods and images give every process of a trial."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.data.manifests.rewrite import CASES

ROOT = Path(__file__).resolve().parents[3]
USER = 10001
CACHES = ("HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT")
WHO = [sys.executable, "-c", f"import getpass, os, pwd; os.setuid({USER}); print(getpass.getuser())"]


def environments(row: Any) -> list[dict[str, str]]:
    """The plain variables of each harness container in a manifest, at any depth."""
    if isinstance(row, list):
        return [found for item in row for found in environments(item)]
    if not isinstance(row, dict):
        return []
    own = row.get("env", []) if "volumeMounts" in row else []
    found = [{item["name"]: item["value"] for item in own if "value" in item}] if own else []
    return found + [more for value in row.values() for more in environments(value)]


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_rendered_pod_names_its_user_and_keeps_its_caches_in_the_work_folder(case: str) -> None:
    rendered = environments(CASES[case]())
    assert rendered
    for found in rendered:
        assert found["USER"] == found["LOGNAME"] == "plumbline"
        home = found.get("PLUMBLINE_HOME", "/work")  # a server has none
        assert all(found[name].startswith(f"{home}/cache/") for name in CACHES)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become a user without a passwd entry")
def test_a_process_with_only_the_pods_variables_knows_its_user() -> None:
    found = environments(CASES["gpus-8"]())[0]
    done = subprocess.run(WHO, env=found, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plumbline"
    nameless = {name: value for name, value in found.items() if name not in ("USER", "LOGNAME")}
    assert subprocess.run(WHO, env=nameless, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("image", sorted((ROOT / "k8s" / "images").glob("*.Dockerfile")), ids=lambda path: path.stem)
def test_an_image_sets_what_the_pod_sets(image: Path) -> None:
    pod = environments(CASES["gpus-8"]())[0]
    text = image.read_text(encoding="utf-8").replace("\\\n", " ")
    own = dict(re.findall(r"([A-Z_]+)=(\S*)", text.partition("\nENV ")[2].partition("\n")[0]))
    assert {name: own.get(name) for name in ("USER", "LOGNAME", "HOME", *CACHES)} == {
        name: pod[name] for name in ("USER", "LOGNAME", "HOME", *CACHES)
    }
