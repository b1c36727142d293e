"""From a set of parameters to the fewest layer names that say it, as a person would write them."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from itertools import chain, combinations

from leaven.catalog.layers import Layers
from leaven.formats.layer_names import with_outer

MANY = 6
_NUMBER = re.compile(r"\d+")


def paths_of(chosen: Iterable[str], layers: Layers) -> tuple[str, ...]:
    """The topmost modules all of whose parameters are chosen, and the parameters that stand alone, in model order.

    Where these are many and differ in their numbers only, globs say it: `blocks.*.bn1`.
    """
    wanted = frozenset(chosen)
    everything = [parameter.name for parameter in layers.parameters]
    partly: set[str] = set()  # modules with a parameter that is not chosen
    for name in everything:
        if name not in wanted:
            partly.update(with_outer(name)[:-1])
    found: dict[str, None] = {}
    places = {module.path: at for at, module in enumerate(layers.modules)}
    for name in sorted(wanted, key=lambda name: (places.get(name.rpartition(".")[0], 0), name)):
        top = next((path for path in with_outer(name) if path not in partly), name)
        found[top] = None
    return tuple(found) if len(found) <= MANY else _shortened(list(found), wanted, everything)


def _shortened(paths: Sequence[str], wanted: frozenset[str], everything: Sequence[str]) -> tuple[str, ...]:
    """Paths alike but for their numbers as globs, as long as these say nothing else."""
    others = frozenset(everything) - wanted
    kept_out = {path for name in others for path in with_outer(name)}
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(_NUMBER.sub("*", path), []).append(path)
    return tuple(glob for group in alike.values() for glob in _globs(group, kept_out))


def _globs(alike: Sequence[str], kept_out: set[str]) -> list[str]:
    """The fewest globs for paths that differ in their numbers, with as few stars as will do."""
    places = range(len(_NUMBER.findall(alike[0])))
    starred = chain.from_iterable(combinations(places, count) for count in range(len(places) + 1))
    return min((_tried(alike, each, kept_out) for each in starred), key=len)


def _tried(alike: Sequence[str], starred: Sequence[int], kept_out: set[str]) -> list[str]:
    """The paths with stars in the given places; as they are where a star would say too much."""
    found: dict[str, list[str]] = {}
    for path in alike:
        found.setdefault(_with_stars(path, starred), []).append(path)
    tried: list[str] = []
    for glob, paths in found.items():
        is_right = len(paths) > 1 and not any(map(re.compile(translate(glob)).match, kept_out))
        tried += [glob] if is_right else paths
    return tried


def _with_stars(path: str, starred: Sequence[int]) -> str:
    numbers = iter(range(len(path)))
    return _NUMBER.sub(lambda found: "*" if next(numbers) in starred else found[0], path)
