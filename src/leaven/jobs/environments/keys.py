"""The forms that values of a configuration file may have."""

import math
from enum import Enum
from typing import Any

from leaven.terminal.byte_sizes import parse_bytes


class Form(Enum):
    """The form of a value; in words, as reports have it."""

    COUNT = "a whole number"
    NUMBER = "a number"
    SIZE = 'a size, such as "16GB"'
    STRING = "a string"
    STRINGS = 'a list of strings, such as ["a", "b"]'
    SWITCH = "true or false"
    TABLE = 'a table of plain values, such as { name = "value" }'
    TABLES = 'a list of tables, such as [{ name = "value" }]'


def is_of(form: Form, value: Any) -> bool:
    """Whether the value of a key has the form that the key asks for."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
    match form:
        case Form.COUNT:
            return is_number and isinstance(value, int)
        case Form.NUMBER:
            return is_number
        case Form.SIZE:
            return parse_bytes(value) is not None if isinstance(value, str) else is_number
        case Form.STRING:
            return isinstance(value, str)
        case Form.STRINGS:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case Form.SWITCH:
            return isinstance(value, bool)
        case Form.TABLE:
            return isinstance(value, dict) and _is_plain(value)
        case Form.TABLES:
            return isinstance(value, list) and all(is_of(Form.TABLE, each) for each in value)


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold a value: it is stored, and sent to engines."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
