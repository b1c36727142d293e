"""What everybody knows of certain parameters and no library's signature tells: bounds, and what their lists hold.

Decides by kind of card and name of parameter alone, so that one line holds for every optimizer that has an `lr`.
"""

from dataclasses import replace
from typing import Any

from leaven.catalog.card import Parameter

_SHARE: dict[str, Any] = {"minimum": 0, "maximum": 1}
_SIDES: dict[str, Any] = {"minimum": 1, "items": "int"}
_CUSTOMS: dict[str, dict[str, dict[str, Any]]] = {
    "optimizer": {
        "lr": {"above": 0},
        "weight_decay": {"minimum": 0},
        "momentum": {"minimum": 0},
        "eps": {"minimum": 0},
        "betas": {"minimum": 0, "below": 1, "items": "float"},
    },
    "transform": {
        "size": _SIDES,
        "kernel_size": _SIDES,
        "p": _SHARE,
        "transforms": {"type": "list", "items": "transform"},
    },
    "model": {
        "in_chans": {"minimum": 1},
        "img_size": _SIDES,
        "image_size": _SIDES,
        "patch_size": _SIDES,
        **dict.fromkeys(
            ("drop_rate", "drop_path_rate", "proj_drop_rate", "attn_drop_rate", "pos_drop_rate", "dropout"), _SHARE
        ),
    },
}


def known(kind: str, parameter: Parameter) -> Parameter:
    """The parameter with what is known of its name in that kind of card."""
    custom = _CUSTOMS.get(kind, {}).get(parameter.name)
    if custom is None:
        return parameter
    if custom.get("items") == "float" and isinstance(parameter.default, tuple):
        return replace(parameter, **custom, length=len(parameter.default))
    return replace(parameter, **custom)
