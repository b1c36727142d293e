"""Which settings of a call say something, and which only repeat what holds anyway."""

from typing import Any

from leaven.language.source import SourceKind
from leaven.recipe.recipe import Default, Invocation, Origin, Setting, Written
from leaven.recipe.resolve import default_value


def is_written(origin: Origin) -> bool:
    """Whether somebody wrote it, in a recipe or on the command line."""
    return isinstance(origin, Written) and origin.span.source.kind is not SourceKind.DEFAULT


def is_chosen(setting: Setting, invocation: Invocation) -> bool:
    """Whether somebody chose a setting, or Leaven's default is not the library's."""
    parameter = invocation.card.parameter(setting.name)
    if parameter is None or is_written(setting.origin) or setting.syntax is not None:
        return True
    if isinstance(setting.origin, Default) and setting.origin.reason.startswith("of "):
        return False
    return bool(_plain(setting.value) != _plain(default_value(parameter)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
