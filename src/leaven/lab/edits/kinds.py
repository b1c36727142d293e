"""All kinds of edits by name, for images and for texts."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from leaven.lab.edits import image_kinds, text_kinds
from leaven.lab.edits.edit import Edit, EditKind, read_edit
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

KINDS: Mapping[str, EditKind] = {kind.name: kind for kind in (*image_kinds.KINDS, *text_kinds.KINDS)}


def kind_of(name: str) -> EditKind:
    """The kind of edit that a name means; a Failure where there is none."""
    if (kind := KINDS.get(name)) is not None:
        return kind
    near = get_close_matches(name, KINDS, n=1)
    raise Failure(f"there is no edit `{visible(name)}`", f"did you mean `{near[0]}`?" if near else ", ".join(KINDS))


def make_edit(name: str, value: Any) -> Edit:
    """The edit that a keyword argument means: `brightness=0.5`, `shift=(0.1, 0.2)`, `grey=True`."""
    kind = kind_of(name)
    if value is True and not kind.parameters:
        return kind.with_arguments()
    return kind.with_arguments(*(value if isinstance(value, tuple | list) else (value,)))


def edit_from_json(data: Any) -> Edit:
    """The edit that `to_json` wrote; a Failure where it can't be read."""
    match data:
        case {"edit": str(name), **arguments}:
            return read_edit(kind_of(name), {str(each): value for each, value in arguments.items()})
    raise Failure('an edit is an object with its name, such as {"edit": "brightness", "factor": 0.5}')
