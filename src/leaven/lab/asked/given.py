"""An input and its edits as JSON: `{"file": "photo.jpg"}` or `{"text": "A good film."}`, two texts as a list."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.lab.edits.edited import Edited
from leaven.lab.edits.kinds import edit_from_json
from leaven.runtime.failures import Failure

Given = Mapping[str, Any]


def as_input(given: Given) -> Any:
    """The file of an image, as a path so that it is never taken for an address; or a text, or a pair of them."""
    match given:
        case {"file": str(file)}:
            return Path(file)
        case {"text": str(text)}:
            return text
        case {"text": list(texts)} if all(isinstance(each, str) for each in texts):
            return tuple(texts)
    raise Failure('an input is {"file": …} or {"text": …}')


def edited(value: Any, edits: Sequence[Any]) -> Edited:
    """An input with the edits that `to_json` wrote."""
    return Edited(value, tuple(map(edit_from_json, edits)))
