"""The division into train, val and test: stratified, seeded, and true to what the data comes with."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import IterableDataset

from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.splits import Count, SplitIndices, split, stratified
from leaven.runtime.data.torch_datasets import user_dataset
from leaven.runtime.failures import Caution, Failure
from leaven.tasks.classification import Classes


def listed(labels: Sequence[int] | None, size: int = 0, given: Mapping[str, Sequence[int]] | None = None) -> Dataset:
    size = size if labels is None else len(labels)
    classes = tuple("abcdefghij")
    return Dataset(Classes(tuple(classes)), labels, size, load=lambda index: index, name=str, predefined=given or {})


def sizes(parts: SplitIndices) -> tuple[int, int, int]:
    return len(parts.train), len(parts.val), len(parts.test)


def per_class(labels: Sequence[int], places: np.ndarray) -> list[int]:
    return [int(count) for count in np.bincount(np.asarray(labels)[places], minlength=max(labels) + 1)]


UNEVEN = [0] * 700 + [1] * 200 + [2] * 100


def test_undivided_data_is_divided_eighty_ten_ten_in_every_class() -> None:
    parts = split(listed(UNEVEN))
    assert sizes(parts) == (800, 100, 100)
    assert per_class(UNEVEN, parts.train) == [560, 160, 80]
    assert per_class(UNEVEN, parts.val) == per_class(UNEVEN, parts.test) == [70, 20, 10]


def test_every_item_is_in_one_part() -> None:
    parts = split(listed(UNEVEN), train=70, val=20, test=10)
    everything = np.concatenate([parts.train, parts.val, parts.test])
    assert sorted(everything.tolist()) == list(range(1000))


def test_the_division_depends_on_its_own_seed_alone() -> None:
    first, again, other = (split(listed(UNEVEN), seed=seed) for seed in (0, 0, 1))
    assert first.val.tolist() == again.val.tolist()
    assert first.val.tolist() != other.val.tolist()
    assert split(listed([0, 1] * 20)).val.tolist() == [3, 12, 33, 36]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"train": 70, "val": 15, "test": 15}, (700, 150, 150)),
        ({"train": 50, "val": 10, "test": 10}, (500, 100, 100)),  # the rest is not used
        ({"val": 20}, (800, 200, 0)),
        ({"train": 60}, (600, 200, 200)),
        ({"train": 60, "val": 30}, (600, 300, 100)),
        ({"train": 100, "val": 0, "test": 0}, (1000, 0, 0)),
        ({"val": Count(33), "test": Count(7)}, (960, 33, 7)),
        ({"train": Count(10), "val": 10, "test": Count(1)}, (10, 100, 1)),
        ({"train": 99.9, "val": 0.05, "test": 0.05}, (1000, 0, 0)),
    ],
)
def test_shares_may_be_percentages_or_counts_and_be_left_unsaid(
    shares: Mapping[str, Any], expected: tuple[int, int, int]
) -> None:
    assert sizes(split(listed(UNEVEN), **shares)) == expected


@pytest.mark.parametrize(
    "shares", [{"train": 80, "val": 30}, {"val": Count(1001)}, {"train": Count(900), "test": 20}, {"train": 101}]
)
def test_more_than_there_is_can_not_be_divided(shares: Mapping[str, Any]) -> None:
    with pytest.raises(Failure, match="more than the 1000 samples"):
        split(listed(UNEVEN), **shares)


def test_small_classes_take_turns() -> None:
    """With five items each, half of the classes are in val and the other half in test."""
    labels = sorted(list(range(10)) * 5)
    parts = split(listed(labels))
    assert sizes(parts) == (40, 5, 5)
    in_val, in_test = per_class(labels, parts.val), per_class(labels, parts.test)
    assert [a + b for a, b in zip(in_val, in_test, strict=True)] == [1] * 10


def test_a_class_with_one_item_is_trained_on_with_a_warning_that_names_it() -> None:
    with pytest.warns(Caution, match="c has only one sample"):
        parts = split(listed([0] * 10 + [1] * 10 + [2]))
    assert 20 in parts.train
    with pytest.warns(Caution, match="b, c have only one sample each"):
        split(listed([0] * 10 + [1, 2]))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 40), st.integers(0, 40), st.integers(0, 1000)
)
def test_every_class_is_in_every_part_in_proportion(counts: list[int], val: int, test: int, seed: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    room = len(labels) - len(counts)
    val = min(val, room)
    test = min(test, room - val)
    parts = stratified(labels, (val, test), seed)
    assert [len(part) for part in parts] == [len(labels) - val - test, val, test]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    for number, count in enumerate(counts):
        left, in_val, in_test = (int((labels[part] == number).sum()) for part in parts)
        assert left >= 1
        if min(counts) * (len(labels) - val - test) > 2 * len(labels):  # no class is so small that train needs it all
            assert abs(in_val - val * count / len(labels)) <= 1
            assert abs(in_test - test * count / len(labels)) <= 1


GIVEN = {"train": range(0, 600), "test": range(600, 1000)}
MIXED = [index % 4 for index in range(1000)]


def test_given_parts_are_used_as_they_are_whatever_the_shares() -> None:
    given = {"train": range(500), "val": range(500, 700), "test": range(700, 1000)}
    parts = split(listed(MIXED, given=given), train=80, val=10, test=10)
    assert sizes(parts) == (500, 200, 300)
    assert parts.val.tolist() == list(range(500, 700))


def test_validation_comes_from_train_and_never_from_test() -> None:
    parts = split(listed(MIXED, given=GIVEN))
    assert sizes(parts) == (540, 60, 400)
    assert max(parts.val) < 600
    assert per_class(MIXED, parts.val) == [15, 15, 15, 15]
    assert sizes(split(listed(MIXED, given=GIVEN), val=20)) == (480, 120, 400)
    assert sizes(split(listed(MIXED, given=GIVEN), val=0)) == (600, 0, 400)


def test_a_set_without_test_gets_none() -> None:
    given = {"train": range(500), "val": range(500, 1000)}
    assert sizes(split(listed(MIXED, given=given))) == (500, 500, 0)


def test_given_parts_can_be_divided_anew() -> None:
    whole = split(listed(MIXED, given=GIVEN), train=70, val=15, test=15, resplit=True)
    assert sizes(whole) == (700, 150, 150)
    assert min(whole.test) < 600
    only_val = split(listed(MIXED, given=GIVEN), val=25, resplit=True)
    assert sizes(only_val) == (450, 150, 400)
    assert min(only_val.test) == 600


@pytest.mark.parametrize(("part", "labels"), [("val", [0, 1, 0, 1, 2, 3]), ("test", [0, 1, 0, 1, 2, 3])])
def test_a_class_that_train_does_not_have_is_named(part: str, labels: list[int]) -> None:
    with pytest.raises(Failure, match=f"{part} has the classes c, d, which train does not have"):
        split(listed(labels, given={"train": range(4), part: range(4, 6)}), val=0)


def test_nothing_to_train_on() -> None:
    with pytest.raises(Failure, match="no samples are left for training"):
        split(listed(None, size=10), train=0, val=50, test=50)


def test_without_known_labels_the_division_is_by_chance() -> None:
    parts = split(listed(None, size=100))
    assert sizes(parts) == (80, 10, 10)
    assert parts.val.tolist() != list(range(10))


class Flowing(IterableDataset[Any]):
    classes = ("a", "b")

    def __iter__(self) -> Any:
        return iter(())


def test_a_stream_is_divided_by_places_among_a_hundred() -> None:
    stream = user_dataset(Flowing())
    assert sizes(split(stream)) == (80, 10, 10)
    assert sizes(split(stream, train=60)) == (60, 20, 20)
    divided = user_dataset({"train": Flowing(), "test": Flowing()})
    assert sizes(split(divided)) == (90, 10, 100)
    with pytest.raises(Failure, match="split by percentages"):
        split(stream, val=Count(100))
