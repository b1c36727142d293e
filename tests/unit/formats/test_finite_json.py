"""JSON that every parser reads."""

import json
import math

import numpy as np

from leaven.formats.finite_json import as_json, finite


def test_nan_and_infinity_are_null() -> None:
    value = {"a": math.nan, "b": [1.5, -math.inf, (np.float32("nan"), np.int64(3))], "c": True, "d": "x"}
    assert finite(value) == {"a": None, "b": [1.5, None, [None, 3]], "c": True, "d": "x"}


def test_of_a_method() -> None:
    class Value:
        @as_json
        def to_json(self, scale: float = 1.0) -> dict[str, float]:
            """Its numbers."""
            return {"a": scale * math.inf}

    assert json.dumps(Value().to_json(scale=2), allow_nan=False) == '{"a": null}'
    assert Value.to_json.__doc__ == "Its numbers."
