"""A plan as a JSON file, and back: what is read is equal to what was written, to the last reason."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from leaven.plan import plan as steps
from leaven.plan import values
from leaven.plan.plan import Plan

KIND = "kind"  # the key that holds the name of a value's class
_CLASSES: Mapping[str, type] = {
    name: found
    for room in (values, steps)
    for name, found in vars(room).items()
    if isinstance(found, type) and is_dataclass(found)
}


def to_json(plan: Plan) -> str:
    return json.dumps(_encoded(plan), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Plan:
    """The plan in a file. Raises ValueError where it is not one of this version."""
    try:
        plan = _decoded(json.loads(text))
    except (KeyError, TypeError, RecursionError) as problem:
        raise ValueError(f"not a plan of this version of Leaven: {problem}") from problem
    if not isinstance(plan, Plan):
        raise ValueError("not a plan")
    return plan


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        named = {each.name: _encoded(getattr(value, each.name)) for each in fields(value)}
        return {KIND: type(value).__name__, **named}
    return [_encoded(each) for each in value] if isinstance(value, tuple) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return _CLASSES[value[KIND]](**{name: _decoded(each) for name, each in value.items() if name != KIND})
    return tuple(_decoded(each) for each in value) if isinstance(value, list) else value
