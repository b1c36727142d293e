"""Bounds and list types of common parameters, which no library's signature gives.

Decides by kind of card and parameter name alone, so that one line holds for every optimizer that has an `lr`.
"""

from dataclasses import replace
from typing import Any

from leaven.catalog.card import Parameter

_FRACTION: dict[str, Any] = {"minimum": 0, "maximum": 1}
_SIZE: dict[str, Any] = {"minimum": 1, "items": "int"}
_BOUNDS: dict[str, dict[str, dict[str, Any]]] = {
    "optimizer": {
        "lr": {"above": 0},
        "weight_decay": {"minimum": 0},
        "momentum": {"minimum": 0},
        "eps": {"minimum": 0},
        "betas": {"minimum": 0, "below": 1, "items": "float"},
    },
    "transform": {
        "size": _SIZE,
        "kernel_size": _SIZE,
        "p": _FRACTION,
        "magnitude": {"minimum": 0, "less_than": "num_magnitude_bins"},
        "num_magnitude_bins": {"minimum": 2},
        "num_ops": {"minimum": 0},
        "severity": {"minimum": 1, "maximum": 10},
        "transforms": {"type": "list", "items": "transform"},
    },
    "model": {
        "in_chans": {"minimum": 1},
        "img_size": _SIZE,
        "image_size": _SIZE,
        "patch_size": _SIZE,
        **dict.fromkeys(
            ("drop_rate", "drop_path_rate", "proj_drop_rate", "attn_drop_rate", "pos_drop_rate", "dropout"), _FRACTION
        ),
    },
}


def with_usual_bounds(kind: str, parameter: Parameter) -> Parameter:
    """The parameter with the usual bounds of its name in that kind of card."""
    bounds = _BOUNDS.get(kind, {}).get(parameter.name)
    if bounds is None:
        return parameter
    if bounds.get("items") == "float" and isinstance(parameter.default, tuple):
        return replace(parameter, **bounds, length=len(parameter.default))
    return replace(parameter, **bounds)
