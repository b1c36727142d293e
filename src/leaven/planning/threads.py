"""How many threads compute, where the recipe leaves it open: one, if the layers are too small for several.

Threads wait for each other after every layer. That takes longer than a small layer itself, and much longer on a busy
machine; docs/benchmarks.md has the measurements. The choice follows from the recipe alone, never from the machine's
load: sums of floats depend on it.
"""

from fractions import Fraction
from math import prod

from leaven.catalog.layers import Layers
from leaven.catalog.values import Default
from leaven.plan.values import Argument
from leaven.planning.passes.measured_settings import USUAL_BATCH
from leaven.planning.translate import argument, because
from leaven.recipe.recipe import Recipe
from leaven.rules.inputs import size_of_images

WORTH_DIVIDING = 40_000_000  # FLOPs of a layer in one step, in the mean over the layers
_PASSES = 3  # a backward pass costs about as much as two forward passes
_REASON = Default("its layers are too small for several")


def threads_of(recipe: Recipe) -> Argument | None:
    """The number of threads; None for as many as there are cores."""
    setting = recipe.train.threads
    if setting.value != "auto":
        return argument(setting)
    batch, layers = recipe.train.batch.value, recipe.model.layers
    if layers is None:
        return None
    batch = batch if isinstance(batch, int) else USUAL_BATCH
    cost = _mean_cost(layers, size_of_images(recipe.data))
    if cost is None or _PASSES * batch * cost >= WORTH_DIVIDING:
        return None
    return Argument("threads", 1, because=because(_REASON))


def _mean_cost(layers: Layers, size: tuple[int, int] | None) -> Fraction | None:
    """The FLOPs of a layer for one sample, in the mean, whatever the size; None where they are not known.

    They are counted for the size that the model is usually given; for images of another one, they grow with the area.
    """
    owners = {parameter.module_path for parameter in layers.parameters}
    costs = [count for path, count in layers.flops.items() if path in owners]
    if not costs:
        return None
    if layers.trial_size is None:
        return Fraction(sum(costs), len(costs))
    return Fraction(sum(costs) * prod(size or layers.trial_size), len(costs) * prod(layers.trial_size))
