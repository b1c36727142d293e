"""Every technique's class is what its card says, so that a program can be written without importing it."""

import inspect

import pytest

from leaven import techniques
from leaven.catalog import own
from leaven.catalog.card import Card
from leaven.catalog.hooks import HOOKS, PROVIDED, hooks_in


def _cards() -> list[Card]:
    found = [own.read("technique", name) for name in own.names("technique")]
    return [card for card in found if card is not None and card.technique.hooks]


@pytest.mark.parametrize("card", _cards(), ids=lambda card: card.name)
def test_class_and_card_agree(card: Card) -> None:
    made = getattr(techniques, card.target.rpartition(".")[2])
    assert card.technique.hooks == hooks_in(dir(made))
    parameters = {
        name: parameter for name, parameter in inspect.signature(made).parameters.items() if name not in ("self",)
    }
    wants = card.technique.wants
    assert set(wants) == set(parameters) & set(PROVIDED)
    said = {(p.target or p.name): p for p in card.parameters}
    assert set(said) == set(parameters) - set(PROVIDED)
    for name, parameter in said.items():
        if parameter.required:
            assert parameters[name].default is inspect.Parameter.empty
        elif not {"quantity", "selector"} & set(parameter.types):  # a program always says these
            assert parameters[name].default == parameter.default, name


@pytest.mark.parametrize("card", _cards(), ids=lambda card: card.name)
def test_hooks_take_what_they_are_given(card: Card) -> None:
    made = getattr(techniques, card.target.rpartition(".")[2])
    for hook in card.technique.hooks:
        if hook in HOOKS:
            assert tuple(inspect.signature(getattr(made, hook)).parameters)[1:] == HOOKS[hook]
