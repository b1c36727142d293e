"""Selectors: from what is written to a set of a model's parameters.

`read_selection` turns the words into a `Selection` and, where the model's layers are known, reports every piece that
matches none. Which parameters a selector means is left to `catalog/selectors.py`.
"""

import re
from collections import Counter
from collections.abc import Sequence

from leaven.binding.arithmetic import calculate
from leaven.binding.scope import Scope
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import (
    WORDS,
    Joined,
    Layer,
    OfType,
    Selection,
    Selector,
    Share,
    Stages,
    Without,
    Word,
    is_resolved,
    matching,
)
from leaven.catalog.value_text import quoted
from leaven.catalog.values import UNKNOWN, Pending, Quantity, Unknown
from leaven.formats.layer_names import is_glob
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.messages import describe

CALLS = ("stages", "first", "last", "type")
_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")


def read_selection(value: syntax.Value, scope: Scope) -> Selection | Unknown:
    """The parameters that a value selects, each piece of it checked against the model's layers."""
    layers = scope.layers
    selector = _Reading(scope, layers, scope.model_name).read(value)
    if isinstance(selector, Unknown):
        return selector
    if layers is None or not is_resolved(selector):
        return Selection(selector, None)
    selection = Selection(selector, matching(selector, layers))
    if isinstance(selector, Joined | Without) and not selection.parameters:
        return scope.report(
            "empty-selector",
            f"this leaves no layer of {scope.model_name}",
            Spot(value.span, "everything is taken away again"),
            fix="check what comes after `-`",
        )
    return selection


class _Reading:
    def __init__(self, scope: Scope, layers: Layers | None, model: str) -> None:
        self.scope = scope
        self.layers = layers
        self.model = model

    def read(self, value: syntax.Value) -> Selector | Unknown:
        if self.scope.expanding and not self.scope.can_expand(value):
            return UNKNOWN
        match value:
            case syntax.Binary(operator="+" | "-" as operator, left=left, right=right):
                first, second = self.read(left), self.read(right)
                if isinstance(first, Unknown) or isinstance(second, Unknown):
                    return UNKNOWN
                return Joined(first, second) if operator == "+" else Without(first, second)
            case syntax.Name(path=path):
                return self._name(value, path)
            case syntax.String(value=text):
                return self._leaf(Layer(text, is_glob(text)), value, text)
            case syntax.Call():
                return self._call(value)
            case syntax.List(items=items) if items:
                return self._joined([self.read(item) for item in items])
        return self.scope.report(
            "wrong-type",
            "this does not name layers",
            Spot(value.span, "expected layers"),
            notes=["layers are named by path (`layer4.1`), by glob in quotes, or by a word such as `head`"],
            fix=f"for the first {value.span.text} layers, write `first({value.span.text})`"
            if isinstance(value, syntax.Number) and isinstance(value.value, int)
            else None,
        )

    def _joined(self, selectors: list[Selector | Unknown]) -> Selector | Unknown:
        """All of them together, joined by halves, so that a long list does not become a deep one."""
        if len(selectors) == 1:
            return selectors[0]
        middle = len(selectors) // 2
        first, second = self._joined(selectors[:middle]), self._joined(selectors[middle:])
        return UNKNOWN if isinstance(first, Unknown) or isinstance(second, Unknown) else Joined(first, second)

    def _name(self, value: syntax.Name, path: str) -> Selector | Unknown:
        if path in WORDS:
            return self._leaf(Word(path), value, path)
        if path in self.scope.broken_names:
            return UNKNOWN
        if path in self.scope.lets:
            return self.scope.expand(value, self.read)
        return self._leaf(Layer(path, False), value, path)

    def _call(self, call: syntax.Call) -> Selector | Unknown:
        name = call.name.path
        amounts = [calculate(argument.value, self.scope) for argument in call.arguments]
        if any(isinstance(amount, Unknown) for amount in amounts):
            return UNKNOWN
        if name == "type" and len(call.arguments) == 1 and isinstance(call.arguments[0].value, syntax.String):
            wanted = call.arguments[0].value
            return self._leaf(OfType(wanted.value), wanted, wanted.value)
        numbers = [amount for amount in amounts if isinstance(amount, int | Pending)]
        if name == "stages" and amounts and len(numbers) == len(amounts):
            return self._stages(call, numbers)
        if name in ("first", "last") and len(amounts) == 1:
            amount = Quantity(amounts[0], "layers") if isinstance(amounts[0], int) else amounts[0]
            if isinstance(amount, Pending):
                return Share(name, amount)
            if isinstance(amount, Quantity) and amount.unit in ("%", "layers") and 0 < amount.amount <= _most(amount):
                return self._leaf(Share(name, amount), call, call.span.text)
        if name not in CALLS:
            near = self.scope.nearest(name, CALLS)
            return self.scope.report(
                "unknown-name",
                f"no way of choosing layers is called `{name}`",
                Spot(call.name.span, "not known"),
                notes=['the forms are `stages(1, 3)`, `first(50%)`, `last(2)` and `type("Conv2d")`'],
                fix=Fix(f"did you mean `{near[0]}`?", Edit(call.name.span, near[0])) if near else None,
            )
        takes = {"stages": "whole numbers", "type": "a text in quotes"}.get(name, "a share or a number of layers")
        return self.scope.report(
            "wrong-type",
            f"`{name}` takes {takes}",
            Spot(call.span, f"expected {takes}"),
            fix=_mended(call, amounts),
        )

    def _stages(self, call: syntax.Call, numbers: Sequence[int | Pending]) -> Selector | Unknown:
        available = len(self.layers.stages) if self.layers else None
        for number, argument in zip(numbers, call.arguments, strict=True):
            if isinstance(number, Pending):
                continue
            if number < 1 or (available is not None and number > available):
                has = f"{available} stages" if available else "no stages"
                return self.scope.report(
                    "unknown-layer",
                    f"{self.model} has {has}" if available is not None else "stages are counted from 1",
                    Spot(argument.span, f"there is no stage {number}"),
                    fix=f"the stages are counted from 1 to {available}" if available else None,
                )
        return Stages(tuple(numbers))

    def _leaf(self, selector: Selector, value: syntax.Value, written: str) -> Selector | Unknown:
        if self.layers is None or matching(selector, self.layers):
            return selector
        return self._unmatched(selector, value, written, self.layers)

    def _unmatched(self, selector: Selector, value: syntax.Value, written: str, layers: Layers) -> Unknown:
        parts = f"the parts of {self.model} are {_parts(layers)}"
        match selector:
            case Word(word):
                headline = f"{self.model} has no layers that `{word}` means"
                near: list[str] = []
            case OfType(type):
                headline = f"{self.model} has no layer of type `{type}`"
                near = self.scope.nearest(type, {module.type for module in layers.modules})
            case Layer(pattern, True):
                headline = f"no layer of {self.model} matches `{pattern}`"
                near = []
                if pattern.startswith("*"):
                    parts = _endings(layers)
            case _:
                headline = f"{self.model} has no layer named `{written}`"
                near = self.scope.nearest(written, [*WORDS, *(module.path for module in layers.modules if module.path)])
                if not near and written in ("classifier", "fc", "linear", "output", "top"):
                    near = ["head"]
        label = "no layer matches"
        if any(module.path == written for module in layers.modules):
            headline, label = f"`{written}` of {self.model} has no parameters", "nothing in it can be trained"
            near = []
        fix: Fix | None = None
        if near:
            near = [_written(path, isinstance(value, syntax.String)) for path in near]
            fix = Fix(f"{describe.did_you_mean(near)} (`leaven inspect` lists them)", Edit(value.span, near[0]))
        else:
            fix = Fix(parts)
        return self.scope.report("unknown-layer", headline, Spot(value.span, label), fix=fix)


def _mended(call: syntax.Call, amounts: Sequence[object]) -> Fix | str:
    """A call that chooses layers, as it should have been written."""
    name, value = call.name.path, call.arguments[0].value if len(call.arguments) == 1 else None
    if name == "type" and isinstance(value, syntax.Name):
        return Fix(f'write `type("{value.path}")`', Edit(value.span, f'"{value.path}"'))
    if value is not None and name in ("first", "last") and isinstance(amounts[0], float) and 0 < amounts[0] < 1:
        share = f"{round(amounts[0] * 100, 4):g}%"
        return Fix(f"write `{name}({share})`", Edit(value.span, share))
    forms = {"stages": "stages(1, 3)", "first": "first(50%)", "last": "last(2)", "type": 'type("Conv2d")'}
    return f"the form is `{forms[name]}`"


def _endings(layers: Layers) -> str:
    """The last names of the layers that have weights, the most frequent first."""
    names = Counter(parameter.module_path.rpartition(".")[2] for parameter in layers.parameters)
    words = [name for name, _ in names.most_common() if name and not name.isdigit()]
    return "its layers end in " + ", ".join(f"`{word}`" for word in words[:8]) + (", …" if len(words) > 8 else "")


def _most(amount: Quantity) -> float:
    return 100 if amount.unit == "%" else float("inf")


def _written(path: str, is_quoted: bool = False) -> str:
    """A layer as it is named in a recipe: in quotes where it is no name of the language, as `1.conv1` is none."""
    return path if _NAME.fullmatch(path) and not is_quoted else quoted(path)


def _parts(layers: Layers) -> str:
    """The top-level modules, a few of them."""
    tops = list(dict.fromkeys(parameter.name.partition(".")[0] for parameter in layers.parameters))
    shown = ", ".join(f"`{_written(top)}`" for top in tops[:8])
    return shown + (", …" if len(tops) > 8 else "")
