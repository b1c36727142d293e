"""A set of parameters in the fewest words."""

from collections.abc import Iterable

import pytest

from leaven.catalog.layers import LayerModule, LayerParameter, Layers
from leaven.planning.paths import paths_of


def layers_of(names: Iterable[str]) -> Layers:
    parameters = tuple(LayerParameter(name, 1, (1,), "Linear", name.rpartition(".")[0]) for name in names)
    modules = dict.fromkeys(parameter.module_path for parameter in parameters)
    return Layers(parameters, tuple(LayerModule(path, "Linear") for path in modules))


NET = [
    f"{path}.{kind}"
    for path in ["stem", *(f"blocks.{a}.{b}.{layer}" for a in range(3) for b in range(4) for layer in ("fc1", "norm1"))]
    for kind in ("weight", "bias")
]
LAYERS = layers_of(NET)


@pytest.mark.parametrize(
    ("chosen", "paths"),
    [
        (lambda name: True, ("stem", "blocks")),
        (lambda name: name.startswith("blocks.1."), ("blocks.1",)),
        (lambda name: name == "stem.bias", ("stem.bias",)),
        (lambda name: ".norm1." in name, ("blocks.*.*.norm1",)),
        (lambda name: name.endswith("bias"), ("stem.bias", "blocks.*.*.fc1.bias", "blocks.*.*.norm1.bias")),
        (
            lambda name: ".norm1." in name and ".0.norm1." not in name,
            ("blocks.*.1.norm1", "blocks.*.2.norm1", "blocks.*.3.norm1"),
        ),
    ],
)
def test_paths_that_differ_in_numbers_become_globs(chosen, paths: tuple[str, ...]) -> None:
    assert paths_of([name for name in NET if chosen(name)], LAYERS) == paths


def test_few_paths_are_written_out() -> None:
    chosen = [name for name in NET if name.startswith("blocks.1.") and ".norm1." in name]
    assert paths_of(chosen, LAYERS) == tuple(f"blocks.1.{number}.norm1" for number in range(4))


def test_a_glob_says_nothing_else() -> None:
    chosen = [name for name in NET if ".norm1." in name and not name.startswith("blocks.0.0.")]
    found = paths_of(chosen, LAYERS)
    assert "blocks.*.*.norm1" not in found
    assert len(found) < 11
