"""A plan as a JSON file, and back: what is read is equal to what was written, to the last reason.

`FORMAT` grows when a class of the plan says something in another way. A file of an older format is upgraded one step at
a time; one without a number is of format 1. A new field needs no format if it has a default: files without it are read
as before, and a version of Leaven that does not know the field refuses the plan.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from leaven.formats.run_folder import program_hash
from leaven.plan.plan import Plan
from leaven.plan.values import Part

FORMAT = 2
KIND = "kind"  # the key that holds the name of a value's class
_CLASSES: Mapping[str, type] = {part.__name__: part for part in Part.__subclasses__()}


def to_json(plan: Plan, program: str = "") -> str:
    """The plan as a file, with the hash of its program, by which an edited one is known."""
    told = {"program": program_hash(program.encode())} if program else {}
    return json.dumps({"format": FORMAT, **told, **_encoded(plan)}, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Plan:
    """The plan in a file. Raises ValueError where it is not one, or one of a newer format."""
    try:
        plan = _decoded(_upgraded(json.loads(text)))
    except (AttributeError, KeyError, TypeError, RecursionError) as problem:
        raise ValueError(f"not a plan of this version of Leaven: {problem}") from problem
    if not isinstance(plan, Plan):
        raise ValueError("not a plan")
    return plan


def _upgraded(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan of any format so far, in today's."""
    written = plan.pop("format", 1)
    if written > FORMAT:
        raise ValueError(f"the plan has format {written}, and this version of Leaven reads formats 1 to {FORMAT}")
    for older in range(written, FORMAT):
        plan = _UPGRADES[older](plan)
    plan.pop("program", None)
    return plan


def _with_fields(value: Any) -> Any:
    """Format 2: what format 1 told by the spelling of calls is in fields."""
    if isinstance(value, list):
        return [_with_fields(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _with_fields(each) for name, each in value.items()}
    match found[KIND]:
        case "BuildModel":
            found["by"] = "bundle" if found.pop("is_bundle") else _maker(found["source"])
        case "Transforms":
            found["is_tokenizing"] = any(call.get("target") == "leaven.runtime.Tokenizer" for call in found["calls"])
        case "ReadData":
            kind = found["source"]["text"].partition("(")[0]
            found["table"] = kind if kind in ("csv", "tsv", "jsonl", "parquet") else ""
            found["is_user"] = found["source"]["target"] == "leaven.runtime.user_dataset"
        case "Task":
            found["predicts"] = {KIND: "ClassOutputs" if found.pop("outputs") == "num_classes" else "NumberOutputs"}
    return found


def _maker(source: dict[str, Any]) -> str:
    if source[KIND] == "Chain":
        return "components"
    library = str(source["target"].partition(".")[0])
    return "user" if source["is_user"] else "transformers" if library == "leaven" else library


_UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_fields}  # each to the next format


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        named = {each.name: _encoded(getattr(value, each.name)) for each in fields(value)}
        return {KIND: type(value).__name__, **named}
    return [_encoded(each) for each in value] if isinstance(value, tuple) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return _CLASSES[value[KIND]](**{name: _decoded(each) for name, each in value.items() if name != KIND})
    return tuple(_decoded(each) for each in value) if isinstance(value, list) else value
