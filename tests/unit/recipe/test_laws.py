"""Laws that hold for every recipe, tried on recipes that hypothesis makes up."""

from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaven
from leaven.binding.arithmetic import calculate
from leaven.binding.scope import Scope
from leaven.binding.selectors import read_selection
from leaven.catalog.layers import LayerModule, LayerParameter, Layers
from leaven.catalog.selectors import Joined, Layer, OfType, Selection, Selector, Share, Stages, Without, Word, matching
from leaven.catalog.values import Quantity, Unknown
from leaven.language.parser import parse_value
from leaven.language.source import Source
from leaven.recipe import show
from leaven.recipe.recipe import Recipe
from leaven.statements.options import Options

quick = settings(max_examples=100, deadline=None)


# -- arithmetic

whole = st.integers(0, 10**6).map(str)
fraction = st.floats(1e-6, 1e6).map(repr)
expressions = st.recursive(
    whole | fraction,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda value: f"-{value}" if not value.startswith("-") else f"-({value})"),
    ),
    max_leaves=8,
)


def calculated(text: str) -> tuple[object, list[str]]:
    """What an expression comes to, and the ids of what is wrong with it."""
    scope = Scope()
    value, mistakes = parse_value(Source("value", text))
    assert value is not None
    assert not mistakes
    return calculate(value, scope), [report.id for report in scope.diagnostics]


@given(expressions)
@settings(max_examples=500, deadline=None)
def test_leaven_calculates_as_python_does(text: str) -> None:
    found, reports = calculated(text)
    try:
        expected = eval(text)
    except ZeroDivisionError:
        assert isinstance(found, Unknown)
        assert set(reports) == {"division-by-zero"}
        return
    if isinstance(expected, int) and abs(expected) >= 10**18:
        expected = float(expected)
    assert found == pytest.approx(expected, rel=1e-12)


@given(whole, whole, st.sampled_from("+-"), st.sampled_from(["epochs", "%", "steps"]))
@quick
def test_quantities_of_one_unit_add_up(one: str, other: str, operator: str, unit: str) -> None:
    expected = eval(f"{one} {operator} {other}")
    assert calculated(f"{one} {unit} {operator} {other} {unit}") == (Quantity(expected, unit), [])


@given(whole, whole)
@quick
def test_quantities_of_two_units_do_not(one: str, other: str) -> None:
    assert calculated(f"{one} epochs + {other} steps")[1] == ["wrong-unit"]


@given(whole, whole)
@quick
def test_a_quantity_times_a_number_is_a_quantity(one: str, other: str) -> None:
    expected = (Quantity(int(one) * int(other), "epochs"), [])
    assert calculated(f"{one} epochs * {other}") == calculated(f"{other} * {one} epochs") == expected


# -- selectors

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
    modules = [LayerModule(path, types.get(path, "Sequential"), True) for path in sorted({"", *above, *paths})]
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


# -- recipes out of recipes

STATEMENTS = (
    "optimizer adamw(lr=1e-3, weight_decay=0.1) { group head, lr=1e-2 }",
    "optimizer sgd(lr=0.1, momentum=0.9)",
    "schedule cosine(warmup=2 epochs)",
    "schedule step(every=3 epochs, factor=0.5)",
    "loss cross_entropy(label_smoothing=0.1)",
    "metrics accuracy(), f1()",
    "mixup 0.2",
    "ema 0.999",
    "freeze stem",
    "freeze layer1 + layer2",
    "early_stop val.loss, patience=3 epochs",
    "train batch=8, seed=3",
    "log tensorboard()",
    "checkpoint every=2 epochs",
    'output "there"',
)
HEAD = "model resnet18()\ndata digits() { eval rgb() -> resize(64) }\n"


def once_each(statements: list[str]) -> list[str]:
    """The last statement of each name."""
    return list({statement.partition(" ")[0]: statement for statement in statements}.values())


bodies = st.lists(st.sampled_from(STATEMENTS), unique=True, max_size=6).map(once_each)


def checked(text: str, options: Options | None = None, **others: str) -> Recipe:
    """The recipe of a text, seen from its folder; the other texts are the files beside it."""
    with TemporaryDirectory() as folder, chdir(folder):
        for name, content in others.items():
            Path(folder, f"{name}.leaven").write_text(content)
        result = leaven.check(Source("recipe.leaven", text, Path(folder)), options)
    assert result.recipe is not None, result.diagnostics
    return result.recipe


def lines(*statements: str) -> str:
    return HEAD + "".join(f"{statement}\n" for statement in statements)


@given(bodies)
@quick
def test_extending_an_empty_recipe_changes_nothing(body: list[str]) -> None:
    assert checked('extends "empty.leaven"\n' + lines(*body), empty="# nothing\n") == checked(lines(*body))


@given(bodies)
@quick
def test_an_empty_recipe_that_extends_another_is_that_one(body: list[str]) -> None:
    assert checked('extends "whole.leaven"', whole=lines(*body)) == checked(lines(*body))


@given(bodies, bodies)
@quick
def test_what_extends_replaces_what_has_the_same_key(base: list[str], later: list[str]) -> None:
    replaced = {statement.partition(" ")[0] for statement in later}
    kept = [statement for statement in base if statement.partition(" ")[0] not in replaced]
    extended = checked('extends "base.leaven"\n' + "\n".join(later), base=lines(*base))
    assert same_but_for_order(extended, checked(lines(*kept, *later)))


@given(bodies, st.sampled_from(STATEMENTS))
@quick
def test_what_is_added_and_dropped_was_never_there(body: list[str], added: str) -> None:
    name = added.partition(" ")[0]
    rest = [statement for statement in body if statement.partition(" ")[0] != name]
    dropped = checked(f'extends "base.leaven"\ndrop {name}\n', base=lines(*rest, added))
    assert dropped == checked(lines(*rest))


@given(bodies, st.sampled_from(STATEMENTS))
@quick
def test_with_is_a_statement_at_the_end(body: list[str], added: str) -> None:
    name = added.partition(" ")[0]
    rest = [statement for statement in body if statement.partition(" ")[0] != name]
    assert checked(lines(*rest), Options(additions=(added,))) == checked(lines(*rest, added))


@pytest.mark.parametrize("form", ["--set", "change"])
@given(
    bodies,
    st.sampled_from(
        [
            ("train", "batch", "train batch={}", ["1", "64", "2 * 8"]),
            ("train", "seed", "train seed={}", ["0", "7"]),
            ("optimizer", "lr", "optimizer adamw(lr={})", ["1e-5", "0.5", "1 / 8"]),
            ("optimizer", "weight_decay", "optimizer adamw(lr=3e-4, weight_decay={})", ["0", "0.01"]),
            ("schedule", "warmup", "schedule cosine(warmup={})", ["1 epoch", "10%", "100 steps"]),
            ("checkpoint", "keep", "checkpoint keep={}", ["last", "all"]),
            ("loss", "label_smoothing", "loss cross_entropy(label_smoothing={})", ["0", "0.5"]),
        ]
    ),
    st.data(),
)
@quick
def test_changing_a_default_is_writing_the_value(
    form: str, body: list[str], setting: tuple[str, str, str, list[str]], data: st.DataObject
) -> None:
    statement, argument, written, values = setting
    value = data.draw(st.sampled_from(values))
    rest = [other for other in body if other.partition(" ")[0] != statement]
    if form == "--set":
        changed = checked(lines(*rest), Options(settings=(f"{statement}.{argument}={value}",)))
    else:
        changed = checked(lines(*rest, f"change {statement}, {argument}={value}"))
    assert same_but_for_order(changed, checked(lines(*rest, written.format(value))))


@given(
    st.sampled_from(
        [
            ("float", ["1e-4", "0.5", "3"]),
            ("int", ["1", "12"]),
            ("bool", ["true", "false"]),
            ('choice["last", "all"]', ["last", "all"]),
        ]
    ),
    st.data(),
)
@quick
def test_an_option_is_the_default_that_it_replaces(kind: tuple[str, list[str]], data: st.DataObject) -> None:
    type, values = kind
    uses = {"float": "train clip=x", "int": "train batch=x", "bool": "train compile=x"}
    use = uses.get(type, "checkpoint keep=x")
    default, given = data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))
    quoted = (lambda value: f'"{value}"') if type.startswith("choice") else str
    optional = checked(lines(f"arg x: {type} = {quoted(default)}", use), Options(args={"x": given}))
    assert optional == checked(lines(f"arg x: {type} = {quoted(given)}", use))


@given(bodies, bodies, st.booleans())
@quick
def test_what_is_shown_is_the_recipe(top: list[str], inside: list[str], has_phases: bool) -> None:
    """With everything filled in, and formatted."""
    outside = ("metrics", "train", "log", "checkpoint", "output")
    within = [statement for statement in inside if not statement.startswith(outside)]
    phases = ['phase "one", epochs=5 {', *within, "}", 'phase "two", epochs=10 { freeze all - head }']
    text = lines(*top, *(phases if has_phases else ()))
    recipe = checked(text)
    shown = leaven.show(recipe)
    assert checked(shown) == recipe
    assert checked(leaven.format(Source("recipe.leaven", shown))) == recipe
    assert checked(leaven.format(Source("recipe.leaven", text))) == recipe


def same_but_for_order(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes say the same; techniques of a phase may come in another order."""

    for phase, twin in zip(one.phases, other.phases, strict=True):
        if any(phase.techniques.count(technique) != twin.techniques.count(technique) for technique in phase.techniques):
            return False
        if replace(phase, techniques=()) != replace(twin, techniques=()):
            return False
    return replace(one, phases=()) == replace(other, phases=())
