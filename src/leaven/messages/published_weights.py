"""Fixes for published weights that are asked for as other tools do: here their tag is a part of the model's name."""

import re

from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.formats.listing import some
from leaven.language.fixes import Edit, Fix
from leaven.language.source import Span

# What torchvision calls the weights that a model was published with.
_OF_TORCHVISION = r"(\w+_Weights\.)?(IMAGENET1K_\w+|COCO\w*|DEFAULT)"
_LOOKAHEAD = 500  # characters
_ARGUMENT = re.compile(r"(?P<model>[\w.]+)\((?P<others>[^()]*)\b(pretrained|weights)\s*=\s*$")
_REST = re.compile(r"[^()]*\)")
_MANY = 4


def by_tag(value: Span, name: str) -> Fix | None:
    """`resnet50(weights="IMAGENET1K_V1")` as `torchvision.resnet50.IMAGENET1K_V1(pretrained=true)`."""
    text = value.source.text
    start = max(0, value.start - _LOOKAHEAD)
    written = _ARGUMENT.search(text[start : value.start])
    if written is None:
        return None
    tag = name.rpartition(".")[2]
    cards = _cards(written["model"])
    card = next((card for card in cards if tag in card.model.weights), None)
    if card is None and re.fullmatch(_OF_TORCHVISION, name) is None:
        return None
    if card is None and tag != "DEFAULT":
        listed = _listed([card for card in cards if card.source == "torchvision"] or cards)
        return Fix(f"there are no such weights; {listed}") if listed else None
    if card is None:
        published = [card for card in cards if card.model.has_weights]
        card = next((card for card in published if card.source == "torchvision"), published[0] if published else None)
    if card is None:
        return None
    exact = f"{card.name}.{tag}" if tag in card.model.weights else card.name
    is_same = lookup.find("model", written["model"])[:1] == (card,) and exact == card.name
    model = value.source.span(start + written.start("model"), start + written.end("model"))
    argument = value.source.span(start + written.end("others"), value.end)
    edits = (Edit(argument, "pretrained=true"),)
    if is_same:
        return Fix("for the published weights, write ", edits, argument)
    rest = _REST.match(text, value.end)
    shown = value.source.span(model.start, rest.end() if rest is not None else value.end)
    return Fix("for these published weights, write ", (Edit(model, exact), *edits), shown)


def unknown_tag(name: str) -> str:
    """The published weights of a model whose name has an unknown tag; empty for other names."""
    model, _, _ = name.rpartition(".")
    return _listed(list(lookup.find("model", model)))


def _cards(model: str) -> list[Card]:
    """The cards that a name may mean: first as recipes read it, then in any library."""
    bare = model.rpartition(".")[2]
    cards = [*lookup.find("model", model), *lookup.find("model", f"torchvision.{bare}"), *lookup.find("model", bare)]
    return [card for number, card in enumerate(cards) if card not in cards[:number]]


def _listed(cards: list[Card]) -> str:
    tagged = [f"`{card.name}.{tag}`" for card in cards for tag in card.model.weights if tag]
    if not tagged:
        return ""
    return f"published {'are' if len(tagged) > 1 else 'is'} {some(tagged, _MANY)}"
