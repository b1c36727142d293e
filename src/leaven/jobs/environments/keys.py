"""What the values of a configuration file may be, by the keys of each section."""

import math
from enum import Enum
from typing import Any

from leaven.formats.byte_sizes import parse_bytes


class Form(Enum):
    """The form of a value; in words, as reports have it."""

    COUNT = "a whole number"
    NUMBER = "a number"
    SIZE = 'a size, such as "16GB"'
    STRING = "a string"
    STRINGS = 'a list of strings, such as ["a", "b"]'
    SWITCH = "true or false"
    TABLE = 'a table, such as { name = "value" }'


def is_of(form: Form, value: Any) -> bool:
    """Whether a value has a form."""
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
            return isinstance(value, dict)
