"""Selectors: from what is written to a set of a model's parameters, or to modules.

`read_selection` turns the words into a `Selection` and, where the model's layers are known, reports every piece that
matches none. Which parameters or modules a selector means is left to `catalog/selectors.py`.
"""

from collections.abc import Sequence

from leaven.binding.arithmetic import calculate
from leaven.binding.scope import Scope
from leaven.catalog import selectors
from leaven.catalog.selectors import WORDS, Selection, Selector
from leaven.catalog.values import UNKNOWN, Number, Pending, Quantity, Unknown
from leaven.formats.layer_names import is_glob
from leaven.language import syntax
from leaven.messages import layers as messages


def read_selection(value: syntax.Value, scope: Scope) -> Selection | Unknown:
    """The parameters that a value selects, each piece of it checked against the model's layers."""
    selector = _read(value, scope)
    if isinstance(selector, Unknown):
        return UNKNOWN
    if scope.layers is None or not selectors.is_resolved(selector):
        return Selection(selector, None)
    selection = Selection(selector, selectors.matching(selector, scope.layers))
    if isinstance(selector, selectors.Joined | selectors.Without) and not selection.parameters:
        return scope.add(messages.nothing_left(value, scope.model_name))
    return selection


def read_modules(value: syntax.Value, scope: Scope, *, is_of_model: bool) -> tuple[str, ...] | Unknown:
    """The modules that a value names. Names and globs stay as they are written, and are checked against the model by
    who knows it; all else needs the layers of the model that is trained."""
    names = _names(value, scope)
    if names is not None:
        return names
    if not is_of_model or scope.layers is None:
        return scope.add(messages.not_names(value))
    selector = _read(value, scope, modules=True)
    if isinstance(selector, Unknown) or not selectors.is_resolved(selector):
        return UNKNOWN
    found = selectors.modules_matching(selector, scope.layers)
    return found or scope.add(messages.no_modules(value, scope.model_name))


def _names(value: syntax.Value, scope: Scope) -> tuple[str, ...] | None:
    """The names and globs in a value; None where it has anything else."""
    match value:
        case syntax.String(value=text):
            return (text,)
        case syntax.Name(path=path) if path not in (*WORDS, *scope.lets, *scope.broken_names):
            return (path,)
        case syntax.List(items=items):
            parts = [_names(item, scope) for item in items]
        case syntax.Binary(operator="+", left=left, right=right):
            parts = [_names(left, scope), _names(right, scope)]
        case _:
            return None
    return None if None in parts else tuple(name for names in parts for name in names or ())


def _read(value: syntax.Value, scope: Scope, *, modules: bool = False) -> Selector | Unknown:
    if scope.expanding and not scope.can_expand(value):
        return UNKNOWN
    match value:
        case syntax.Binary(operator="+" | "-" as operator, left=left, right=right):
            first, second = _read(left, scope, modules=modules), _read(right, scope, modules=modules)
            if isinstance(first, Unknown) or isinstance(second, Unknown):
                return UNKNOWN
            return selectors.Joined(first, second) if operator == "+" else selectors.Without(first, second)
        case syntax.Name(path=path) if path in WORDS:
            return _checked(selectors.Word(path), value, path, scope, modules)
        case syntax.Name(path=path) if path in scope.broken_names:
            return UNKNOWN
        case syntax.Name(path=path) if path in scope.lets:
            return scope.expand(value, lambda inner: _read(inner, scope, modules=modules))
        case syntax.Name(path=path):
            return _checked(selectors.Layer(path, False), value, path, scope, modules)
        case syntax.String(value=text):
            return _checked(selectors.Layer(text, is_glob(text)), value, text, scope, modules)
        case syntax.Call():
            return _read_call(value, scope, modules)
        case syntax.List(items=items) if items:
            return _joined([_read(item, scope, modules=modules) for item in items])
    return scope.add(messages.not_layers(value))


def _joined(parts: Sequence[Selector | Unknown]) -> Selector | Unknown:
    """One selector for several, joined by halves, so that a long list does not become a deep tree."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    first, second = _joined(parts[:middle]), _joined(parts[middle:])
    return UNKNOWN if isinstance(first, Unknown) or isinstance(second, Unknown) else selectors.Joined(first, second)


def _read_call(call: syntax.Call, scope: Scope, modules: bool) -> Selector | Unknown:
    name, values = call.name.path, [argument.value for argument in call.arguments]
    amounts = [calculate(value, scope) for value in values]
    if any(isinstance(amount, Unknown) for amount in amounts):
        return UNKNOWN
    match name, values:
        case "type", [syntax.String(value=type) as wanted]:
            return _checked(selectors.OfType(type), wanted, type, scope, modules)
        case "stages", [_, *_]:
            numbers = [amount for amount in amounts if isinstance(amount, int | Pending)]
            if len(numbers) == len(amounts):
                return _stages(call, numbers, scope)
        case "first" | "last", [_]:
            amount = _share(amounts[0])
            if isinstance(amount, Pending):
                return selectors.Share(name, amount)
            if amount is not None:
                return _checked(selectors.Share(name, amount), call, call.span.text, scope, modules)
    if name in messages.CALLS:
        return scope.add(messages.wrong_arguments(call, amounts[0] if amounts else None))
    return scope.add(messages.unknown_call(call, scope.nearest(name, messages.CALLS)))


def _share(amount: Number | Unknown | None) -> Quantity | Pending | None:
    """A count of layers, or a percentage of parameters; None for what can't be one."""
    match Quantity(amount, "layers") if isinstance(amount, int) else amount:
        case Pending() as share:
            return share
        case Quantity(number, "layers" | "%" as unit) as share if number > 0 and (unit == "layers" or number <= 100):
            return share
    return None


def _stages(call: syntax.Call, numbers: Sequence[int | Pending], scope: Scope) -> Selector | Unknown:
    available = len(scope.layers.stages) if scope.layers else None
    for number, argument in zip(numbers, call.arguments, strict=True):
        if isinstance(number, int) and (number < 1 or (available is not None and number > available)):
            return scope.add(messages.no_such_stage(argument, number, scope.model_name, available))
    return selectors.Stages(tuple(numbers))


def _checked(selector: Selector, value: syntax.Value, written: str, scope: Scope, modules: bool) -> Selector | Unknown:
    """A piece of a selector, if it matches layers of the model."""
    layers = scope.layers
    if layers is None or (selectors.modules_matching if modules else selectors.matching)(selector, layers):
        return selector
    report = messages.no_such_layer(selector, value, written, scope.model_name, layers, scope.nearest)
    return scope.add(report)
