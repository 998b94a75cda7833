"""Requests of a KServe model that is known only by its server's description."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plumbline.loadclient.kserve_model import InputTensor, KserveModel, UnusableModel

RNG = np.random.default_rng(1)


def given(datatype: str, shape: tuple[int, ...], *, batched: bool = False, optional: bool = False) -> InputTensor:
    return InputTensor("IN", datatype, shape, optional, batched)


@pytest.mark.parametrize(
    ("asked", "value", "shape", "data"),
    [
        (given("INT32", (2,)), [1, 2], (2,), b"\1\0\0\0\2\0\0\0"),
        (given("INT32", (-1,), batched=True), [1, 2], (1, 2), b"\1\0\0\0\2\0\0\0"),
        (given("BYTES", (1,)), "héy", (1,), b"\4\0\0\0h\xc3\xa9y"),
        (given("BYTES", (2,)), ["a", "bc"], (2,), b"\1\0\0\0a\2\0\0\0bc"),
        (given("BYTES", (1,), batched=True), "a", (1, 1), b"\1\0\0\0a"),
        (given("UINT8", (-1,)), "hé", (3,), b"h\xc3\xa9"),
        (given("BOOL", (1,)), [True], (1,), b"\1"),
    ],
)
def test_a_json_value_becomes_a_tensor(asked: InputTensor, value: Any, shape: tuple[int, ...], data: bytes) -> None:
    tensor = asked.tensor(value, RNG)
    assert (tensor.values.shape, tensor.data) == (shape, data)


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        (given("INT32", (2,)), [1, 2, 3], r"the shape \[3\]; expected \[2\] of INT32"),
        (given("INT32", (2,)), ["a", "b"], "is not of INT32"),
        (given("INT32", (-1,)), None, 'takes any size .* expected --prompts FILE, a JSON object a line such as {"IN": …}'),
    ],
)
def test_an_impossible_value_is_named(asked: InputTensor, value: Any, expected: str) -> None:
    with pytest.raises(UnusableModel, match=expected):
        asked.tensor(value, RNG)


def test_random_values_have_the_type_and_shape_of_the_input() -> None:
    for datatype in ("FP32", "INT64", "BOOL", "BYTES", "FP16"):
        tensor = given(datatype, (3, 2), batched=True).tensor(None, RNG)
        assert tensor.values.shape == (1, 3, 2) and len(tensor.data) > 0


def test_an_optional_input_is_left_out_and_an_unknown_one_is_named() -> None:
    model = KserveModel("m", (given("INT32", (1,), optional=True), InputTensor("X", "INT32", (1,), False, False)), {"OUT": 4}, False)
    assert [each.name for each in model.tensors({}, RNG)] == ["X"]
    assert [each.name for each in model.tensors({"IN": [1]}, RNG)] == ["IN", "X"]
    assert model.wire.responses == {"OUT": 4}
    with pytest.raises(UnusableModel, match="has no input Y; expected IN, X"):
        model.tensors({"Y": [1]}, RNG)
