"""A pipeline may have thousands of stages: ten times as many take about ten times the work, counted in calls."""

import cProfile
import pstats
from collections.abc import Callable

import pytest

from leaven.catalog.layers import LayerModule, LayerParameter, Layers
from leaven.catalog.selectors import Stages, matching
from leaven.planning.effects import summarised
from leaven.recipe.freezing import trainable_stages


def pipeline(count: int) -> Layers:
    """A stem, `count` stages and a head, each with a convolution."""
    paths = [str(at) for at in range(count + 2)]
    return Layers(
        parameters=tuple(LayerParameter(f"{p}.conv.weight", 9, (3, 3), "Conv2d", f"{p}.conv") for p in paths),
        modules=tuple(LayerModule(path, "Conv") for path in paths),
        stem=("0",),
        stages=tuple((path,) for path in paths[1:-1]),
        head=(paths[-1],),
    )


def select_stages(layers: Layers) -> None:
    numbers = tuple(range(1, len(layers.stages) + 1, 2))
    assert matching(Stages(numbers), layers) == {f"{number}.conv.weight" for number in numbers}


def order_stages(layers: Layers) -> None:
    frozen = frozenset({"0.conv.weight"})
    expected = [frozenset({f"{at}.conv.weight"}) for at in range(1, len(layers.stages) + 2)]
    assert trainable_stages(layers, frozen) == expected


def summarise(layers: Layers) -> None:
    effects = {parameter.module_path: ("frozen",) for parameter in layers.parameters}
    effects["1.norm"] = ("trainable",)
    found = summarised(effects)
    assert (found["0"], found["1"], found["1.norm"]) == (("frozen",), ("…",), ("trainable",))


@pytest.mark.parametrize("done", [select_stages, order_stages, summarise])
def test_ten_times_the_stages_are_about_ten_times_the_work(done: Callable[[Layers], None]) -> None:
    few, many = calls(done, pipeline(30)), calls(done, pipeline(300))
    assert many <= 12 * few, f"{many / few:.1f} times the work"


def test_a_selector_that_is_written_often_is_matched_once() -> None:
    layers = pipeline(10)
    assert matching(Stages((1, 2)), layers) is matching(Stages((1, 2)), layers)
    assert layers.fitted(3).matched == {}


def calls(done: Callable[[Layers], None], layers: Layers) -> int:
    profile = cProfile.Profile()
    profile.runcall(done, layers)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
