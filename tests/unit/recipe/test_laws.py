"""Laws about recipes, options and `extends`, on recipes that hypothesis generates."""

from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaven
from leaven.language.source import Source
from leaven.recipe.recipe import Recipe
from leaven.statements.options import Options

quick = settings(max_examples=100, deadline=None)


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
def test_an_extending_statement_replaces_the_one_with_its_key(base: list[str], later: list[str]) -> None:
    replaced = {statement.partition(" ")[0] for statement in later}
    kept = [statement for statement in base if statement.partition(" ")[0] not in replaced]
    extended = checked('extends "base.leaven"\n' + "\n".join(later), base=lines(*base))
    assert same_but_for_order(extended, checked(lines(*kept, *later)))


@given(bodies, st.sampled_from(STATEMENTS))
@quick
def test_adding_and_dropping_a_statement_changes_nothing(body: list[str], added: str) -> None:
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
            ("optimizer", "weight_decay", "optimizer adamw(weight_decay={})", ["0", "0.01"]),
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
def test_the_shown_text_is_the_recipe(top: list[str], inside: list[str], has_phases: bool) -> None:
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
