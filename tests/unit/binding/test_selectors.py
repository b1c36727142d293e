"""Selectors on models that hypothesis generates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaven.binding.scope import Scope
from leaven.binding.selectors import read_modules, read_selection
from leaven.catalog.layers import LayerModule, LayerParameter, Layers
from leaven.catalog.selectors import Joined, Layer, OfType, Selection, Selector, Share, Stages, Without, Word, matching
from leaven.catalog.values import Quantity
from leaven.language.parser import parse_value
from leaven.language.source import Source
from leaven.recipe import show

quick = settings(max_examples=100, deadline=None)


TYPES = ("Conv2d", "BatchNorm2d", "Linear", "LayerNorm")


@st.composite
def layer_trees(draw: st.DrawFn) -> Layers:
    """The layers of a model that nobody has built: a few stages of a few layers, a stem before them, a head behind."""
    stages = [
        [f"layer{stage}.{block}.{part}" for block in range(draw(st.integers(1, 3))) for part in ("conv", "bn")]
        for stage in range(1, draw(st.integers(2, 4)))
    ]
    paths = ["conv1", *(path for stage in stages for path in stage), "fc"]
    parameters = []
    types = {}
    for path in paths:
        types[path] = draw(st.sampled_from(TYPES))
        for name in draw(st.sampled_from([("weight",), ("weight", "bias")])):
            parameters.append(LayerParameter(f"{path}.{name}", draw(st.integers(1, 1000)), (1,), types[path], path))
    above = {path.rpartition(".")[0] for path in paths} | {path.partition(".")[0] for path in paths}
    modules = [LayerModule(path, types.get(path, "Sequential")) for path in sorted({"", *above, *paths})]
    return Layers(
        parameters=tuple(parameters),
        modules=tuple(modules),
        head=("fc",),
        stem=("conv1",),
        stages=tuple((f"layer{number}",) for number in range(1, len(stages) + 1)),
        is_forward_order=True,
    )


def selectors(layers: Layers) -> st.SearchStrategy[Selector]:
    paths = [module.path for module in layers.modules if module.path]
    leaves: st.SearchStrategy[Selector] = st.one_of(
        st.sampled_from(["all", "head", "backbone", "stem"]).map(Word),
        st.sampled_from(paths).map(lambda path: Layer(path, False)),
        st.sampled_from(["layer*", "*.conv", "layer?.0", "[cf]*"]).map(lambda glob: Layer(glob, True)),
        st.integers(1, len(layers.stages)).map(lambda number: Stages((number,))),
        st.sampled_from(sorted({parameter.module_type for parameter in layers.parameters})).map(OfType),
        st.tuples(st.sampled_from(["first", "last"]), st.integers(1, 100)).map(
            lambda pair: Share(pair[0], Quantity(pair[1], "%"))
        ),
        st.tuples(st.sampled_from(["first", "last"]), st.integers(1, 5)).map(
            lambda pair: Share(pair[0], Quantity(pair[1], "layers"))
        ),
    )
    return st.recursive(
        leaves, lambda inner: st.builds(Joined, inner, inner) | st.builds(Without, inner, inner), max_leaves=6
    )


@given(st.data())
@quick
def test_plus_is_union_and_minus_is_difference(data: st.DataObject) -> None:
    layers = data.draw(layer_trees())
    one, other = data.draw(selectors(layers)), data.draw(selectors(layers))
    everything = {parameter.name for parameter in layers.parameters}
    assert matching(Joined(one, other), layers) == matching(one, layers) | matching(other, layers)
    assert matching(Without(one, other), layers) == matching(one, layers) - matching(other, layers)
    assert matching(Without(Word("all"), one), layers) == everything - matching(one, layers)
    assert matching(one, layers) <= everything


@given(st.data())
@quick
def test_a_written_selector_means_the_same_when_read_again(data: st.DataObject) -> None:
    layers = data.draw(layer_trees())
    selector = data.draw(selectors(layers))
    value, mistakes = parse_value(Source("value", show.selector(selector)))
    assert value is not None
    assert not mistakes
    again = read_selection(value, Scope())
    assert again == Selection(selector, None)


@given(layer_trees())
@quick
def test_words_and_paths_divide_a_model(layers: Layers) -> None:
    everything = {parameter.name for parameter in layers.parameters}
    head, backbone = matching(Word("head"), layers), matching(Word("backbone"), layers)
    assert head | backbone == everything
    assert not head & backbone
    tops = {module.path.partition(".")[0] for module in layers.modules if module.path}
    parts = [matching(Layer(top, False), layers) for top in tops]
    assert set().union(*parts) == everything
    assert sum(map(len, parts)) == len(everything)


@given(layer_trees(), st.integers(1, 99))
@quick
def test_first_and_last_meet(layers: Layers, share: int) -> None:
    everything = {parameter.name for parameter in layers.parameters}
    smaller, larger = (matching(Share("first", Quantity(part, "%")), layers) for part in (share, share + 1))
    assert smaller <= larger
    assert matching(Share("first", Quantity(100, "%")), layers) == everything
    rest = matching(Share("last", Quantity(100 - share, "%")), layers)
    assert smaller | rest == everything
    count = len({parameter.module_path for parameter in layers.parameters})
    for number in range(1, count):
        front = matching(Share("first", Quantity(number, "layers")), layers)
        back = matching(Share("last", Quantity(count - number, "layers")), layers)
        assert front | back == everything
        assert not front & back


SMALL = Layers(
    parameters=(LayerParameter("conv1.weight", 9, (9,), "Conv2d", "conv1"),),
    modules=tuple(
        LayerModule(path, type)
        for path, type in [
            ("", "Net"),
            ("conv1", "Conv2d"),
            ("act1", "ReLU"),
            ("layer1", "Sequential"),
            ("layer1.act", "ReLU"),
        ]
    ),
    stages=(("layer1",),),
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("act1", ("act1",)),
        ('["layer*", act1]', ("layer*", "act1")),
        ('type("ReLU")', ("act1", "layer1.act")),
        ('type("ReLU") - act1 + conv1', ("layer1.act", "conv1")),
        ("stages(1)", ("layer1",)),
    ],
)
def test_modules_need_no_parameters(text: str, meant: tuple[str, ...]) -> None:
    value, _ = parse_value(Source("value", text))
    assert value is not None
    assert read_modules(value, Scope(layers=SMALL), is_of_model=True) == meant
