"""What differs between two trainings: the recipes by their meaning, the data, the seed, the versions.

Recipes are compared as plans, where every default is filled in. Layout, names of files and the order of arguments make
no difference.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import signature
from typing import Any

from leaven.formats.finite_json import as_json
from leaven.plan.plan import Plan, TrainPhase
from leaven.plan.values import Argument, Bound, Call, Entries, Part

_NO_MEANING = {"name", "summary", "output", "asked", "choices", "caches"}  # of a plan: they don't change the result
_SILENT = {"call", "source", "calls", "settings", "loading", "value", "arguments", "components", "steps"}  # in labels
_NO_PART = {("data", "seed"), ("run", "seed"), ("run", "epochs"), ("run", "threads"), ("model", "by")}
_ARGUMENTS = {"from_phase", "devices", "machines"}  # of the command line: they say where to train, not what
_MACHINE = ("platform", "processor", "devices", "threads", "processes")
_LIBRARIES = ("leaven", "torch", "torchvision", "timm")
_ABSENT = "none"

Way = tuple[str, ...]  # the names of the fields that lead to a part of a plan


@dataclass(frozen=True)
class Difference:
    """A setting that differs, in words."""

    what: str
    a: str
    b: str

    @as_json
    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "a": self.a, "b": self.b}


# -- recipes


def recipe_differences(a: Plan, b: Plan) -> tuple[Difference, ...]:
    """What two recipes train otherwise, field by field; the seed is not part of it."""
    return tuple(
        Difference(" ".join(each for each in path if each) or "recipe", _shown(first), _shown(second))
        for path, first, second in _apart(a, b, ())
        if path not in _NO_PART
    )


def _apart(a: Any, b: Any, path: Way) -> Iterator[tuple[Way, Any, Any]]:
    """The innermost parts that differ, with the way to them."""
    if a == b:
        return
    if isinstance(a, Argument) and isinstance(b, Argument):
        inner = _apart(a.value, b.value, path)
        yield from ((way, a, b) if way == path else (way, x, y) for way, x, y in inner)
    elif isinstance(a, tuple) and isinstance(b, tuple) and _are_named(a, b):
        yield from _apart_by_name(a, b, path)
    elif isinstance(a, Call) and isinstance(b, Call) and not _are_told_whole(a, b):
        yield from _apart_by_name(_filled(a, b), _filled(b, a), path)
    elif isinstance(a, Part) and type(a) is type(b) and not isinstance(a, Call):
        for name in _compared(a):
            if not (isinstance(a, Plan) and name in _NO_MEANING):
                label = () if name in _SILENT or name == "phases" else (name.replace("_", " "),)
                yield from _apart(getattr(a, name), getattr(b, name), (*path, *label))
    elif not isinstance(a, Call) or not isinstance(b, Call) or not a.text or a.text != b.text:
        yield path, a, b  # calls of the same text differ because of something else, such as the outputs of the data


def _compared(part: Any) -> list[str]:
    """The fields that count when a part of a plan is compared."""
    return [each.name for each in fields(part) if each.compare]


def _are_told_whole(a: Call, b: Call) -> bool:
    """Whether two calls are of different things, or differ in arguments that have no name."""
    unnamed = ([one.value for one in call.arguments if not one.name] for call in (a, b))
    return a.target != b.target or next(unnamed) != next(unnamed)


def _filled(call: Call, other: Call) -> tuple[Argument, ...]:
    """The arguments of a call, with the defaults of those that only the other one gives."""
    missing = [one.name for one in other.arguments if call.argument(one.name) is None]
    defaults = [_default(call, name) for name in missing]
    return (*call.arguments, *(one for one in defaults if one is not None))


def _default(call: Call, name: str) -> Argument | None:
    """The default of an argument, where a known library tells; user code is not imported."""
    module, _, function = call.target.rpartition(".")
    if call.is_user or call.target.partition(".")[0] not in _LIBRARIES:
        return None
    try:
        found = signature(getattr(import_module(module), function)).parameters[name].default
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return Argument(name, found) if isinstance(found, bool | int | float | str | tuple) else None


def _are_named(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether the members of two tuples are recognised by their names: arguments, phases, metrics, techniques.

    Calls are made one after the other, so their order matters.
    """
    if any(isinstance(one, Call) for one in (*a, *b)):
        return [getattr(one, "target", None) for one in a] == [getattr(one, "target", None) for one in b]
    return all(isinstance(one, Part) and isinstance(getattr(one, "name", None), str) for one in (*a, *b))


def _apart_by_name(a: Sequence[Any], b: Sequence[Any], path: Way) -> Iterator[tuple[Way, Any, Any]]:
    first, second = _by_name(a), _by_name(b)
    for name in dict.fromkeys([*first, *second]):
        yield from _apart(first.get(name), second.get(name), (*path, name))


def _by_name(members: Sequence[Any]) -> dict[str, Any]:
    """Members by name; those without one, or with the same, by their place."""
    found: dict[str, Any] = {}
    for place, one in enumerate(members, 1):
        name = f'phase "{one.name}"' if isinstance(one, TrainPhase) else one.name
        is_clear = len(members) == 1 or (name and name not in found)
        found[name if is_clear else f"{name}[{place}]"] = one
    return found


def _shown(value: Any) -> str:
    """A part of a plan, as its recipe would write it."""
    match value:
        case None:
            return _ABSENT
        case bool():
            return str(value).lower()
        case Argument():
            return value.text or _shown(value.value)
        case Call():
            inside = ", ".join(f"{one.name}={_shown(one)}".removeprefix("=") for one in value.arguments)
            return value.text or f"{value.name}({inside})"
        case Bound():
            return _shown(value.call)
        case Entries():
            return ", ".join(f"{name}: {_shown(one)}" for name, one in value.items)
        case tuple():
            return ", ".join(map(_shown, value)) or _ABSENT
        case Part():
            return _shown_part(value)
    return str(value)


def _shown_part(part: Part) -> str:
    """Its text in the recipe; else its name, or that of its kind with what is in it."""
    if isinstance(call := getattr(part, "call", None), Call):
        return _shown(call)
    if isinstance(text := getattr(part, "text", None) or getattr(part, "name", None), str):
        return text
    inside = [_shown(getattr(part, name)) for name in _compared(part)]
    kind = re.sub(r"(?<!^)(?=[A-Z])", " ", type(part).__name__).lower()
    return f"{kind} {', '.join(one for one in inside if one != _ABSENT)}".strip()


# -- what was noted when they were trained


def lock_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What differs between the locks of two runs: arguments, data, seed, versions, machine."""
    return (
        *_each("argument", _given(a), _given(b)),
        *_each("data", _counts(a), _counts(b)),
        *_each("", {"seed": a.get("seed")}, {"seed": b.get("seed")}),
        *version_differences(versions_in(a), versions_in(b)),
        *_each("machine:", _on(a), _on(b)),
    )


def version_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The packages that two models were made with, as far as both tell."""
    shared = [name for name in a if name in b]
    return _each("version of", {name: a[name] for name in shared}, {name: b[name] for name in shared})


def versions_in(lock: Mapping[str, Any]) -> dict[str, Any]:
    """The versions of Python and of the packages in a lock."""
    return {"python": lock.get("python"), **_mapping(lock.get("packages"))}


def _given(lock: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _mapping(lock.get("arguments")).items() if name not in _ARGUMENTS}


def _counts(lock: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the data: outputs, sizes of the splits, and the hash of its samples."""
    return {name: str(value)[:12] if name == "samples" else value for name, value in _mapping(lock.get("data")).items()}


def _on(lock: Mapping[str, Any]) -> dict[str, Any]:
    return {name: lock.get(name) for name in _MACHINE}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _each(kind: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    return tuple(
        Difference(f"{kind} {name}".strip(), _noted(a.get(name)), _noted(b.get(name)))
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    )


def _noted(value: Any) -> str:
    return ", ".join(map(str, value)) or _ABSENT if isinstance(value, list) else _shown(value)
