"""Each harness image has every room that the harness imports: without one no trial's pod starts."""

from __future__ import annotations

import re

import pytest
from tests.cluster.images import _SOURCES, ROOT
from tests.unit.loadclient.test_stands_alone import closure, rooms

IMAGES = sorted(path for path in (ROOT / "k8s" / "images").glob("*.Dockerfile") if "include/plumbline/harness" in path.read_text())


@pytest.fixture(scope="module")
def needed() -> set[str]:
    found = rooms(closure("plumbline.harness.run, plumbline.harness.training.job.trial, plumbline.harness.inference.trial"))
    assert {"harness", "formats", "results"} <= found
    return found


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_an_image_has_every_room(needed: set[str], image: object) -> None:
    copied = set(re.findall(r"include/plumbline/(\w+)", image.read_text()))  # type: ignore[attr-defined]
    assert len(IMAGES) >= 4 and needed <= copied


def test_a_changed_room_builds_a_new_image(needed: set[str]) -> None:
    assert needed <= {name.removeprefix("include/plumbline/").removesuffix(".py") for name in _SOURCES}
