"""The classes that published weights were trained on: ImageNet-1k and the larger sets of ImageNet.

Source: the lists that timm installs in `timm/data/_info`. `*_synsets.txt` have the ids of WordNet (wnids) in the order
of the outputs, `imagenet_synset_to_lemma.txt` has the words for each. They are read as text; timm is not imported. The
number of outputs tells the set, as in timm. Decides which output a class of the data means, in a check and in training.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from leaven.formats.listing import either, in_code, some_of_many

_SETS = {  # how many outputs, and the file with their wnids
    "imagenet-1k": (1000, "imagenet_synsets.txt"),
    "imagenet-21k-miil": (11221, "imagenet21k_miil_synsets.txt"),
    "imagenet-12k": (11821, "imagenet12k_synsets.txt"),
    "imagenet-22k": (21841, "imagenet22k_synsets.txt"),
    "imagenet-22k-ms": (21842, "imagenet22k_ms_synsets.txt"),
    "imagenet-21k-goog": (21843, "imagenet21k_goog_synsets.txt"),
}
_WORDS = "imagenet_synset_to_lemma.txt"
_LISTED = 3  # classes in a message
_WNID = re.compile(r"(n\d{8})(?:[-_ ].*)?")  # `n02085620-Chihuahua`, as the Stanford dogs are named

Words = Mapping[str, Sequence[int]]  # the outputs that a wnid or a name may mean


class PublishedClasses(NamedTuple):
    """The wnid and the name of each output. A name is all words for the class: `tench, Tinca tinca`."""

    wnids: tuple[str, ...]
    names: tuple[str, ...]


class Mismatch(NamedTuple):
    """Why the classes of the data are not outputs of the model."""

    fact: str
    help: str


def published_set(outputs: int | None) -> str | None:
    """The name of the set that published weights with so many outputs were trained on, if it is known."""
    return next((name for name, (count, _) in _SETS.items() if count == outputs), None)


def named_outputs(names: Sequence[str]) -> PublishedClasses:
    """The outputs of a model that has only names for them."""
    return PublishedClasses(tuple(names), tuple(names))


@lru_cache(maxsize=2)
def published_classes(name: str) -> PublishedClasses:
    """The classes of a set, in the order of the outputs. Where two have the same name, it ends with the wnid."""
    spec = find_spec("timm")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0], "data", "_info")
    _, file = _SETS[name]
    wnids = tuple((folder / file).read_text("utf-8").split())
    lines = (folder / _WORDS).read_text("utf-8").splitlines()
    words = {wnid: text for wnid, _, text in (line.partition("\t") for line in lines)}
    names = [words.get(wnid, wnid) for wnid in wnids]
    seen = Counter(names)
    unique = (f"{text} ({wnid})" if seen[text] > 1 else text for wnid, text in zip(wnids, names, strict=True))
    return PublishedClasses(wnids, tuple(unique))


def words_of(wnids: Sequence[str], names: Sequence[str]) -> Words:
    """The outputs by the names that their classes may have: the wnid, the whole name, or one of its words."""
    found: dict[str, list[int]] = {}
    for at, (wnid, name) in enumerate(zip(wnids, names, strict=True)):
        plain = name.removesuffix(f" ({wnid})")
        for word in dict.fromkeys(map(_folded, (wnid, name, plain, *plain.split(",")))):
            found.setdefault(word, []).append(at)
    return found


def outputs_called(name: str, words: Words) -> Sequence[int]:
    """The outputs that the name of a class may mean."""
    if wnid := _WNID.fullmatch(name):
        return words.get(wnid[1], ())
    if (whole := words.get(_folded(name))) is not None:
        return whole
    parts = [set(words[word]) for part in name.split(",") if (word := _folded(part)) in words]
    return sorted(set.intersection(*parts)) if parts else ()


def match(given: Sequence[str], published: PublishedClasses) -> tuple[int, ...] | Mismatch:
    """The output of each class of the data; or what is wrong with the first classes that have none."""
    count = len(published.wnids)
    if len(given) == count and set(given) == set(map(str, range(count))):
        return tuple(map(int, given))  # the data numbers its classes as the outputs are
    words = words_of(*published)
    meant = [outputs_called(name, words) for name in given]
    if len(given) == count and all(at in outputs for at, outputs in enumerate(meant)):
        return tuple(range(count))  # the order tells apart what has the same name
    if unknown := [name for name, outputs in zip(given, meant, strict=True) if not outputs]:
        return _unknown(unknown, words)
    for name, outputs in zip(given, meant, strict=True):
        if len(outputs) > 1:
            wnids = in_code(published.wnids[at] for at in outputs)
            fact = f"`{name}` is the name of {len(outputs)} outputs of the model"
            return Mismatch(fact, f"name the class by its wnid: {either(wnids)}")
    first: dict[int, str] = {}
    for name, (at,) in zip(given, meant, strict=True):
        if at in first:
            fact = f"`{first[at]}` and `{name}` are the same output of the model, {published.wnids[at]}"
            return Mismatch(fact, "make them one class")
        first[at] = name
    return tuple(first)


def _folded(name: str) -> str:
    """A name without what people write in different ways: case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]+", " ", name.casefold()).strip()


def _unknown(names: Sequence[str], words: Words) -> Mismatch:
    from difflib import get_close_matches

    fact = f"the model has no output for the class{'es' * (len(names) > 1)} {some_of_many(in_code(names), _LISTED)}"
    near = dict.fromkeys(
        close for name in names[:_LISTED] for close in get_close_matches(_folded(name), words, n=1, cutoff=0.7)
    )
    nearest = f"the model has {' and '.join(in_code(near))}; otherwise " if near else ""
    return Mismatch(fact, f"{nearest}remove `head=keep` to get a new head for these classes")
