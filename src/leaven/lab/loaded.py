"""A loaded model that can be looked into: what `leaven.load` returns.

The room `bundle` never imports the compiler, which reads selectors; so the question is added here.
"""

import os
from dataclasses import fields
from typing import TYPE_CHECKING

from leaven.bundle import Bundle
from leaven.runs.models import load_model

if TYPE_CHECKING:
    from leaven.lab.inspector import Inspector


class Loaded(Bundle):
    """A bundle whose layers can be read and changed: `leaven.load("dogs.bundle").inspect().read("head", "dog.jpg")`."""

    def inspect(self) -> "Inspector":
        """The layers of the model, to be read, changed for a while, or stopped in."""
        from leaven.lab.inspector import Inspector

        return Inspector(self)


def load(word: str | os.PathLike[str], *, trust_code: bool = False, device: str = "cpu") -> Loaded:
    """A model by any of its names."""
    bundle = load_model(word, trust_code=trust_code, device=device)
    return Loaded(**{field.name: getattr(bundle, field.name) for field in fields(bundle)})
