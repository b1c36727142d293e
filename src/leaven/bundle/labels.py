"""How the labels of data are matched to what a model predicts: by what they mean, never by their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leaven.bundle.inputs.protocol import name_of
from leaven.formats.target import BadTarget, Target, each_sample
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure


def relabelled(items: Dataset, target: Target, noun: str) -> Dataset:
    """Samples with labels of their own, which become those of the target."""
    if items.values is None:
        pairs = [items.load(index) for index in range(len(items))]
        labels = [items.target.plain(value) for _, value in pairs]
        items = replace(items, load=_Listed([sample for sample, _ in pairs], noun))
    else:
        labels = [items.target.plain(value) for value in items.values]
    return replace(items, target=target, values=_values(target, labels, items.name))


def from_pairs(data: Any, target: Target, noun: str) -> Dataset:
    """Samples that are given with their labels."""
    pairs = list(data)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise Failure(
            "there is nothing to measure", f"give a folder, a table, or {noun}s, each in a tuple with its label"
        )
    given = [str(label) if isinstance(label, int) else label for _, label in pairs]
    listed = _Listed([sample for sample, _ in pairs], noun)
    return Dataset(target, _values(target, given, listed.name), len(pairs), listed, listed.name, in_memory=True)


def _values(target: Target, given: Sequence[Any], name: Any) -> list[Any]:
    try:
        return each_sample(target.value, given)
    except BadTarget as bad:
        raise Failure(f"{name(bad.at or 0)} {bad.fact}", bad.help) from None


@dataclass(frozen=True)
class _Listed:
    samples: Sequence[Any]
    noun: str

    def __call__(self, index: int) -> Any:
        return self.samples[index]

    def name(self, index: int) -> str:
        return name_of(self.samples[index], self.noun, index)
