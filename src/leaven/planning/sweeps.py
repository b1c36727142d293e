"""From the sweeps of a recipe to its trials: the values of each, the same whenever the recipe is planned.

The values of a range are spread over it: each is drawn from a part of its own, all parts of the same size.
"""

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import Any

from leaven.catalog.values import Invocation, Score
from leaven.plan.plan import Metric, Sweep, Trial, is_lower_better
from leaven.plan.values import Plain
from leaven.planning.translate import because, plain_value
from leaven.recipe.recipe import Recipe

DRAWN = 10  # values of a range, where the recipe does not say how many
_DIGITS = 3  # of a drawn value


def sweep_of(recipe: Recipe, metrics: Sequence[Metric], monitor: str) -> Sweep | None:
    """All combinations of the values of a recipe's sweeps; None where it has none."""
    if not recipe.sweeps:
        return None
    names = [sweep.value("name") for sweep in recipe.sweeps]
    types = {arg.name: arg.type for arg in recipe.args}
    seed = recipe.train.seed.value
    values = [_values(sweep, types[sweep.value("name")], seed) for sweep in recipe.sweeps]
    by = next((str(sweep.value("by")) for sweep in recipe.sweeps if isinstance(sweep.value("by"), Score)), monitor)
    return Sweep(
        trials=tuple(Trial(tuple(zip(names, chosen, strict=True))) for chosen in product(*values)),
        by=by,
        lower_is_better=is_lower_better(by, metrics),
        because=because(*(sweep.origin for sweep in recipe.sweeps)),
    )


def _values(sweep: Invocation, type: str, seed: Any) -> list[Plain]:
    values, count = sweep.value("values"), sweep.value("trials")
    if isinstance(values, Invocation):
        rng = random.Random(f"{seed if isinstance(seed, int) else 0} {sweep.value('name')}")
        found = _drawn(values, count or DRAWN, rng, is_whole=type == "int")
    else:
        found = [value for value in map(plain_value, values) if isinstance(value, Plain)][:count]
    return list(dict.fromkeys(found))


def _drawn(bounds: Invocation, count: int, rng: random.Random, *, is_whole: bool) -> list[Plain]:
    low, high = float(bounds.value("low")), float(bounds.value("high"))
    is_log = bounds.card.name == "log_range"
    if is_whole:
        low, high = math.ceil(low), math.floor(high)
    first, last = (math.log(low), math.log(high)) if is_log else (low, high)
    found: list[Plain] = []
    for part in range(count):
        place = first + (last - first) * (part + rng.random()) / count
        rounded = float(f"{math.exp(place) if is_log else place:.{_DIGITS}g}")
        value = min(max(rounded, low), high)
        found.append(round(value) if is_whole else value)
    return found
