"""A search of the catalog: the cards that contain some words, best match first."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leaven.catalog import habits, lookup
from leaven.catalog.card import Card

_IN_ARTICLE = 5  # the rank of a card whose article alone has the words


class Match(NamedTuple):
    """A card, and the name by which it was found."""

    name: str
    card: Card


def search(words: Sequence[str], kinds: Sequence[str]) -> list[Match]:
    """The cards that contain all the words, best match first; those whose article alone has them only if there are no
    others."""
    found = sorted(_ranked(" ".join(words).lower().split(), kinds), key=lambda ranked: ranked[0])
    found = [ranked for ranked in found if ranked[0][0] < _IN_ARTICLE] or found
    return [match for _, match in found]


def meanings(name: str, kinds: Sequence[str]) -> list[Card]:
    """The cards that a name means, one for each kind."""
    return [card for kind in kinds for card in lookup.find(kind, name)[:1]]


def nearest(word: str, kinds: Sequence[str]) -> list[str]:
    """The names of the catalog that a word most likely stands for."""
    return lookup.nearest(word, [name for kind in kinds for name in lookup.names(kind)])


def _ranked(wanted: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[tuple[int, int, str], Match]]:
    for kind in kinds:
        for name in dict.fromkeys(lookup.names(kind)):
            card = lookup.find(kind, name)[0]
            rank = _rank(wanted, name.lower(), card)
            if rank is not None:
                bare = name.partition(".")[2] if kind == "statement" and "." in name else name
                yield (rank, len(bare), name.lower()), Match(name, card)


def _rank(wanted: Sequence[str], name: str, card: Card) -> int | None:
    """How well a card matches the words, 0 the best; None where it does not."""
    if all(word in name for word in wanted):
        is_meant = wanted == [name] or [habits.word_for(word) for word in wanted] == [name]
        return 0 if is_meant else 1 if name.startswith(tuple(wanted[:1])) else 2
    described = f"{name} {card.name} {card.summary}"
    arguments = " ".join(parameter.name for parameter in card.parameters)
    for rank, text in enumerate((described, f"{described} {arguments}", f"{described} {arguments} {card.article}"), 3):
        if all(word in name or _is_in(word, text) for word in wanted):
            return rank
    return None


def _is_in(word: str, text: str) -> bool:
    """Whether a text has a word, or one that begins with it; short ones must match whole."""
    end = r"\b" if len(word) < 4 else ""
    return re.search(rf"\b{re.escape(_spaced(word))}{end}", _spaced(text.lower())) is not None


def _spaced(text: str) -> str:
    return text.replace("_", " ")
