"""The score of an answer: one number among the outputs of a model, which can be differentiated and explained.

Which number that is, the task says (`output_score`); here is what tasks with one number per name share.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from leaven.runtime.failures import Failure


@dataclass(frozen=True)
class OutputScore:
    """The score that a name means: `each` computes it from a batch of outputs, one number for each input."""

    name: str
    each: Callable[[Any], Tensor]


def of_column(outputs: Tensor, names: Sequence[str], wanted: str | None) -> OutputScore:
    """The output with a name; None means the largest for the first input."""
    at = int(outputs[0].argmax()) if wanted is None else number_of(wanted, names)
    return OutputScore(names[at], lambda found: found[:, at])


def number_of(wanted: str, names: Sequence[str]) -> int:
    """The number of a name; `goldfish` is `goldfish, Carassius auratus`, too. A Failure for an unknown one."""
    if wanted in names:
        return names.index(wanted)
    having = [at for at, name in enumerate(names) if wanted in name.split(", ")]
    if len(having) == 1:
        return having[0]
    near = [names[at] for at in having] or difflib.get_close_matches(wanted, names, n=1) or list(names[:3])
    raise Failure(f"the model has no output named {wanted}", f"it has {', '.join(near)}")
