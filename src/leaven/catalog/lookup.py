"""Which cards a name may mean: Leaven's own first, then what the installed libraries offer.

Also finds the nearest names for a misspelt one.
"""

import re
from collections.abc import Iterable

from leaven.catalog import library, own
from leaven.catalog.card import Card
from leaven.catalog.habits import word_for

LIBRARY_KINDS = frozenset(library.KINDS)
_OF_OWN_CARDS = ("transformers", "datasets", "starters", "leaven")  # what may be written before the name of one
LIBRARIES = ("torch", "torchvision", "timm", "torchmetrics", *_OF_OWN_CARDS)


def find(kind: str, name: str) -> tuple[Card, ...]:
    """Every card of that kind that the name may mean; it means the first."""
    prefix, _, rest = name.partition(".")
    own_name = rest if prefix in _OF_OWN_CARDS else name
    card = own.read(kind, own_name)
    own_cards = (card,) if card is not None and name in (card.name, card.bare_name, f"leaven.{card.bare_name}") else ()
    return (*own_cards, *library.installed().find(kind, name)) if kind in LIBRARY_KINDS else own_cards


def names(kind: str) -> list[str]:
    """Every bare name of that kind."""
    return [*own.names(kind), *(library.installed().names(kind) if kind in LIBRARY_KINDS else ())]


def names_at_hand(kind: str) -> list[str]:
    """Every bare name of that kind that is known without indexing the libraries first."""
    return names(kind) if library.installed().is_indexed() else [*own.names(kind)]


def _distance(name: str, other: str) -> int:
    """How far apart the numbers in two names are, where they differ in nothing else."""
    numbers = [[int(digits) for digits in re.findall(r"\d{1,9}", each)] for each in (name, other)]
    if re.sub(r"\d+", "", name) != re.sub(r"\d+", "", other) or len(numbers[0]) != len(numbers[1]):
        return 0
    return sum(abs(one - two) for one, two in zip(*numbers, strict=True))


def nearest(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that `word` most likely stands for."""
    from difflib import SequenceMatcher, get_close_matches

    pool = dict.fromkeys(candidates)
    synonym = word_for(word)
    if synonym in pool:
        return [synonym]
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in pool}
    plain = word.lower().replace("-", "_")
    if plain in folded:
        return [folded[plain]]
    close = get_close_matches(plain, folded, n=max(1, len(folded)), cutoff=0.7)
    ratios = {name: SequenceMatcher(None, name, plain).ratio() for name in close}
    close = [name for name in close if ratios[name] > ratios[close[0]] - 0.05]
    # In natural order, by which `lite2` comes before `lite10`.
    parts = {name: [(int(d), "") if d.isdecimal() else (-1, d) for d in re.split(r"(\d+)", name)] for name in close}
    close.sort(key=lambda name: (-ratios[name], _distance(name, plain), parts[name]))
    if not close and len(plain) >= 4:
        close = [name for name in folded if name.startswith(plain) or (len(name) >= 4 and plain.startswith(name))]
    return [folded[name] for name in close[:limit]]
