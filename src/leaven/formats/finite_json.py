"""JSON without NaN and infinity, which browsers and most parsers refuse: they become null."""

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

P = ParamSpec("P")


def finite(value: Any) -> Any:
    """Plain data with None in place of NaN and infinity; numbers of NumPy become Python's."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case dict():
            return {name: finite(each) for name, each in value.items()}
        case list() | tuple():
            return [finite(each) for each in value]
    return finite(value.item()) if hasattr(value, "item") else value


def as_json(plain: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
    """A `to_json` whose result JSON can hold."""

    @functools.wraps(plain)
    def to_json(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        found: dict[str, Any] = finite(plain(*args, **kwargs))
        return found

    return to_json
