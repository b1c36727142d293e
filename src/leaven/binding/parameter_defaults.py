"""The default values of parameters, and which settings differ from them."""

from pathlib import Path
from typing import Any

from leaven.catalog.card import Parameter
from leaven.catalog.selectors import Word
from leaven.catalog.values import Default, FilePath, Invocation, Quantity, Score, Setting, is_written, plural_unit


def default_value(parameter: Parameter) -> Any:
    """A parameter's default as a value of the language."""
    default = parameter.default
    if "quantity" in parameter.types and isinstance(default, str):
        amount, unit = default.rstrip("%").split(" ")[0], "%" if default.endswith("%") else default.split(" ")[1]
        return Quantity(float(amount) if "." in amount else int(amount), plural_unit(unit))
    if "selector" in parameter.types and isinstance(default, str):
        return Word(default)
    if "score" in parameter.types and isinstance(default, str):
        split, _, metric = default.partition(".")
        return Score(split, metric)
    if "path" in parameter.types and "text" not in parameter.types and isinstance(default, str):
        return FilePath(default, Path(default))
    return default


def is_chosen(setting: Setting, invocation: Invocation) -> bool:
    """Whether somebody chose a setting, or Leaven's default is not the library's."""
    parameter = invocation.card.parameter(setting.name)
    if parameter is None or is_written(setting.origin) or setting.syntax is not None or parameter.passes_default:
        return True
    if isinstance(setting.origin, Default) and setting.origin.reason.startswith("of "):
        return False
    return bool(_plain(setting.value) != _plain(default_value(parameter)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
