from __future__ import annotations

import numpy as np
from tests.unit.harness.inference.load.test_model_wires import prompt

from plumbline.declarations.workloads.models import PATCH_BYTES
from plumbline.harness.inference.load.model_wires import encoder_inputs, image_patches
from plumbline.harness.inference.models import encoder


def test_patches_follow_from_ids_and_from_nothing_else() -> None:
    one = image_patches(np.array([5, 65_535, 5], np.int32))
    assert one.shape == (3, PATCH_BYTES) and one.dtype == np.uint8
    assert np.array_equal(one[0], one[2]) and not np.array_equal(one[0], one[1])
    assert np.array_equal(image_patches(np.array([65_535], np.int32))[0], one[1])
    assert one[0, :4].tolist() == [58, 88, 15, 238], "the same on every machine"


def test_patches_of_many_ids_all_differ_and_use_every_level() -> None:
    many = image_patches(np.arange(2000, dtype=np.int32))
    assert len({row.tobytes() for row in many}) == 2000
    counts = np.bincount(many.ravel(), minlength=256)
    assert counts.min() > 0.9 * counts.mean() and counts.max() < 1.1 * counts.mean()


def test_an_image_goes_over_the_wire_as_pixels() -> None:
    (tensor,) = encoder_inputs(prompt([5, 6]), "vision")
    assert (tensor.name, tensor.datatype, tensor.values.shape, len(tensor.data)) == (
        "PIXELS",
        "UINT8",
        (1, 2, PATCH_BYTES),
        2 * PATCH_BYTES,
    )


def test_the_served_model_cuts_patches_of_the_same_size() -> None:
    """Its source lies in Triton's repository and imports nothing of the harness."""
    assert encoder.PATCH_BYTES == PATCH_BYTES
