"""Reports about values that their parameters do not take, about units, arithmetic and scores."""

import re
from collections.abc import Sequence

from leaven.catalog import lookup
from leaven.catalog.card import Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Quantity, plural_unit
from leaven.formats.listing import either, in_code
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import Fix, write
from leaven.language.source import Span
from leaven.messages import describe, habits, suggestions

_UNITS = ("epochs", "steps", "samples", "%", "seconds", "minutes", "hours")
SPLITS = ("train", "val", "test")
_PLAIN = frozenset({"int", "float", "bool", "text", "list", "choice", "quantity", "any", "none", "name"})


def wrong_type(value: syntax.Value, parameter: Parameter, found: str = "") -> Diagnostic:
    expected = describe.expected(parameter)
    found = found or describe.written_value(value)
    headline = f"`{describe.subject(parameter)}` {_takes(parameter)} {expected}, not {found}"
    return error("wrong-type", headline, (value, f"expected {expected}"), fix=suggestions.for_type(value, parameter))


def wrong_type_of_name(use: syntax.Name, parameter: Parameter, found: str, definition: Span) -> Diagnostic:
    """A `let` or `arg` of another type."""
    expected = describe.expected(parameter)
    headline = f"`{describe.subject(parameter)}` {_takes(parameter)} {expected}, but `{use.path}` is {found}"
    return error("wrong-type", headline, (use, f"expected {expected}"), (definition, f"`{use.path}` is {found}"))


def unknown_choice(value: syntax.Value, written: str, parameter: Parameter) -> Diagnostic:
    listed = "one of " + ", ".join(in_code(parameter.choices))
    if {"int", "float", "bool"} & set(parameter.types):
        listed = describe.expected(parameter)
    more = ", or a string in quotes" if "text" in parameter.types else ""
    headline = f"`{describe.subject(parameter)}` can't be `{written}`"
    if parameter.name == "hook":
        headline = f"unknown hook `{written}`"
    fix = suggestions.similar(value.span, lookup.nearest(written, parameter.choices, limit=1))
    fix = fix or habits.rand_augment(value.span, parameter.name)
    label = f"expected {listed}{more}"
    return error("unknown-choice", headline, (value, label), fix=fix or _default(value, parameter))


def empty_path(value: syntax.Value) -> Diagnostic:
    return error("missing-file", "the path is empty", (value, "expected the name of a file or folder"))


def out_of_range(value: syntax.Value, number: float | Quantity, parameter: Parameter, bound: str) -> Diagnostic:
    digits = set(value.span.text.lower().partition("e")[0]) & set("123456789")
    is_rounded = number == 0 and isinstance(value, syntax.Number) and digits  # `1e-400` is 0 as a float
    headline = f"`{describe.subject(parameter)}` can't be {_amount(number, parameter)}"
    if is_rounded:
        headline = f"`{value.span.text}` is too small: it rounds to 0"
    return error("out-of-range", headline, (value, f"must be {bound}"), fix=_default(value, parameter))


def not_whole(value: syntax.Value, number: Quantity, parameter: Parameter) -> Diagnostic:
    headline = f"`{parameter.name}` can't be {_amount(number, parameter)}"
    fix = write(value.span, str(int(number.amount)), after=f" or `{int(number.amount) + 1}`")
    return error("wrong-type", headline, (value, f"must be a whole number of {number.unit}"), fix=fix)


def wrong_length(value: syntax.Value, items: Sequence[object], parameter: Parameter) -> Diagnostic:
    headline = f"`{parameter.name}` takes {parameter.length} values, not {len(items)}"
    fix = _default(value, parameter)
    return error("wrong-length", headline, (value, f"expected a list of {parameter.length}"), fix=fix)


def _default(value: syntax.Value, parameter: Parameter) -> Fix | str | None:
    """A fix with the default, where nothing else is known to be right."""
    if parameter.default is None or parameter.default in ("0 epochs", "auto"):
        return None
    default, (name, is_element, _) = describe.default_text(parameter), parameter.name.partition("[")
    if is_element and not isinstance(parameter.default, list | tuple):
        return None
    if is_element:
        return f"the default is `{name}={default}`"
    return write(value.span, default, after=" (the default)")


def _takes(parameter: Parameter) -> str:
    return "must be" if set(parameter.types) & _PLAIN else "takes"


def _amount(number: float | Quantity, parameter: Parameter) -> str:
    """A number as it reads after its parameter: `epochs` can't be -1, not -1 epochs."""
    is_its_unit = isinstance(number, Quantity) and number.unit == parameter.name
    return value_text(number.amount if isinstance(number, Quantity) and is_its_unit else number)


def too_large(value: syntax.Value, most: int) -> Diagnostic:
    return error("too-large", f"this expands to more than {most:,} parts", (value, "too large"))


def too_large_together(value: syntax.Value, most: int) -> Diagnostic:
    headline = f"the `let`s and repetitions of this recipe expand to more than {most:,} parts"
    fix = 'use fewer of them; a glob selects many layers at once: `"layer*.conv1"`'
    return error("too-large", headline, (value, "the limit is reached here"), fix=fix)


def not_a_stage(value: syntax.Value, kind: str) -> Diagnostic:
    headline = f"{describe.written_value(value)} can't be a stage of a pipeline"
    fix = habits.rand_augment(value.span) if kind == "transform" else None
    return error("wrong-type", headline, (value, f"expected {describe.KIND_NOUNS[kind]}"), fix=fix)


def wrong_repetition(value: syntax.Value, times: object) -> Diagnostic:
    fix = None
    if isinstance(times, float) and times > 1:
        fix = write(value.span, str(int(times)), after=f" or `{int(times) + 1}`")
    headline = "the number of repetitions must be a positive integer"
    return error("out-of-range", headline, (value, "expected 1 or more"), fix=fix)


def not_a_pipeline(call: syntax.Call) -> Diagnostic:
    """`compose([a, b])`: a pipeline is written with arrows."""
    values = [argument.value for argument in call.arguments]
    stages = values[0].items if len(values) == 1 and isinstance(values[0], syntax.List) else values
    joined = " -> ".join(" ".join(stage.span.text.split()) for stage in stages[:6])
    headline = f"a pipeline needs no `{call.name.path}`"
    fix = write(call.span, joined) if joined and len(stages) <= 6 else "join the transforms with `->`"
    return error("unknown-name", headline, (call.name, "transforms are joined with `->`"), fix=fix)


# -- units and arithmetic


def different_units(left: syntax.Value, left_unit: str, right: syntax.Value, right_unit: str) -> Diagnostic:
    headline = f"{left_unit} and {right_unit} can't be added"
    fix = "give both in the same unit"
    return error("wrong-unit", headline, (right, f"in {right_unit}"), (left, f"in {left_unit}"), fix=fix)


def missing_unit(number: syntax.Value, quantity: syntax.Value, unit: str) -> Diagnostic:
    """A plain number is added to a quantity."""
    headline = f"{unit} and a plain number can't be added"
    fix = write(number.span, f"{number.span.text}%" if unit == "%" else f"{number.span.text} {unit}")
    return error("wrong-unit", headline, (number, "has no unit"), (quantity, f"in {unit}"), fix=fix)


def wrong_operands(value: syntax.Binary) -> Diagnostic:
    headline = f"`{value.operator}` can't be applied to these operands"
    return error("wrong-type", headline, (value, "a quantity can only be multiplied or divided by a plain number"))


def division_by_zero(divisor: syntax.Value) -> Diagnostic:
    return error("division-by-zero", "division by zero", (divisor, "is zero"))


def number_too_large(value: syntax.Value) -> Diagnostic:
    return error("too-large", "this number is too large", (value, ""))


def unexpected_unit(value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Diagnostic:
    """A unit where a parameter takes none."""
    types, expected = set(parameter.types), describe.expected(parameter)
    fix: Fix | None = None
    if quantity.unit == "%" and types & {"float", "any"}:
        fix = write(value.span, value_text(quantity.amount / 100))
    elif types & {"int", "float"}:
        fix = write(value.span, value_text(quantity.amount))
    id, headline = "wrong-type", f"`{describe.subject(parameter)}` must be {expected}, not {value_text(quantity)}"
    if types & {"int", "float", "any", "list"}:
        id, headline = "wrong-unit", f"`{describe.subject(parameter)}` takes no unit"
    return error(id, headline, (value, f"expected {expected}"), fix=fix)


def wrong_unit(value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Diagnostic:
    expected = describe.expected(parameter)
    near = lookup.nearest(quantity.unit, parameter.units, limit=1)
    fix = Fix(f"write a number of {parameter.units[0]}, such as `{parameter.name}={_example(parameter)}`")
    if near:
        fix = write(value.span, value_text(Quantity(quantity.amount, near[0])))
    headline = f"unknown unit `{quantity.unit}`"
    if plural_unit(quantity.unit) in _UNITS:
        headline = f"`{parameter.name}` must be {expected}, not {quantity.unit}"
    return error("wrong-unit", headline, (value, f"expected {expected}"), fix=fix)


def fraction_as_percentage(value: syntax.Value, number: float, parameter: Parameter) -> Diagnostic:
    """`0.8` where percent are counted: 80% is meant, and 0.8% would be read."""
    right = value_text(Quantity(round(number * 100, 6), "%")).replace(".0%", "%")
    parts = [part.strip() for part in value.span.text.split("/")]
    if parameter.name == "train" and len(parts) in (2, 3) and sum(int(p) if p.isdecimal() else 0 for p in parts) == 100:
        right = ", ".join(f"{name}={part}%" for name, part in zip(("train", "val", "test"), parts, strict=False))
    counted = [unit for unit in parameter.units if unit != "%"]
    more = f", or a number of {either(counted)}" if counted and "=" not in right else ""
    headline = f"`{parameter.name}` needs a unit"
    fix = write(value.span, right, after=more)
    return error("wrong-unit", headline, (value, f"would mean {value_text(number)}%"), fix=fix)


def fraction_of_unit(value: syntax.Value, number: float, parameter: Parameter) -> Diagnostic:
    """`warmup=0.1`: a tenth of an epoch, where a tenth of the phase is often meant."""
    unit = parameter.units[0]
    share = value_text(Quantity(round(number * 100, 6), "%")).replace(".0%", "%")
    headline = f"`{parameter.name}={value.span.text}` means {value_text(number)} {unit}"
    fix = write(value.span, share, "for a share of the phase, write ", after=f"; else `{value_text(number)} {unit}`")
    return warning("small-fraction", headline, (value, f"less than one {unit.removesuffix('s')}"), fix=fix)


def _example(parameter: Parameter) -> str:
    """A quantity that the parameter takes."""
    if isinstance(parameter.default, str) and parameter.default[0] != "0":
        return describe.default_text(parameter)
    return value_text(Quantity(10 if parameter.units[0] == "%" else 5, parameter.units[0]))


# -- scores


def not_a_score(name: syntax.Name) -> Diagnostic:
    split, _, metric = name.path.partition(".")
    joined = re.fullmatch(r"(train|val|test)_(\w+)", name.path)
    near = lookup.nearest(split, SPLITS, limit=1)
    better = f"{near[0]}.{metric}" if near and metric else f"val.{metric or split}"
    headline = f"`{name.path}` is not a score"
    notes = ["a score is `val.accuracy` or `val.loss`; the splits are train, val and test"]
    fix = suggestions.similar(name.span, [f"{joined[1]}.{joined[2]}" if joined else better])
    return error("unknown-score", headline, (name, "expected a split and a metric"), notes=notes, fix=fix)


def not_measured(name: syntax.Name, measured: Sequence[str]) -> Diagnostic:
    split, _, metric = name.path.partition(".")
    near = [f"{split}.{word}" for word in lookup.nearest(metric, measured, limit=1)]
    listed = ", ".join(f"`{split}.{word}`" for word in measured)
    fix = suggestions.similar(name.span, near) or (
        f"add `metrics {metric}()`" if lookup.find("metric", metric) else None
    )
    return error("unknown-score", f"`{metric}` is not measured", (name, f"the scores are {listed}"), fix=fix)
