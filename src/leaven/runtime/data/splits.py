"""Which samples are used for training, validation and testing.

The split has a seed of its own, so that runs with other training seeds are compared on the same samples.
"""

import warnings
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from leaven.formats.split_sizes import Count, Share, in_samples, split_sizes
from leaven.formats.target import Target, Value
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.torch_datasets import StreamDataset
from leaven.runtime.failures import Caution, Failure
from leaven.runtime.seeding import generator

EMPTY: np.ndarray = np.empty(0, dtype=np.int64)
CYCLE = 100  # a stream is split by each sample's position modulo this


@dataclass(frozen=True)
class SplitIndices:
    """The indices of each split's samples, ascending. In a stream they are positions modulo CYCLE."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


def split(
    dataset: Dataset | StreamDataset,
    *,
    train: Share = None,
    val: Share = None,
    test: Share = None,
    seed: int = 0,
    resplit: bool = False,
) -> SplitIndices:
    """A stratified split of a dataset; shares are percentages, or `Count(500)`.

    Predefined splits are used as they are; where there is none for validation, `val` (10 %) of train becomes one, never
    of test. A dataset without predefined splits is split 80/10/10. With `resplit`, the predefined splits that have a
    share are put together with train and split again.
    """
    if isinstance(dataset, Dataset):
        predefined = {name: np.asarray(indices, dtype=np.int64) for name, indices in dataset.predefined.items()}
    else:
        predefined = {name: np.arange(CYCLE) for name in dataset.sources} if dataset.has_splits else {}
    if not predefined:
        if train is val is test is None:
            train, val, test = 80, 10, 10
        length = CYCLE if isinstance(dataset, StreamDataset) else len(dataset)
        indices = _split(dataset, np.arange(length), (train, val, test), seed)
    elif resplit:
        indices = _resplit(dataset, predefined, (train, val, test), seed)
    elif "val" in predefined:
        indices = SplitIndices(predefined["train"], predefined["val"], predefined.get("test", EMPTY))
    else:
        fresh = _split(dataset, predefined["train"], (None, 10 if val is None else val, 0), seed)
        indices = SplitIndices(fresh.train, fresh.val, predefined.get("test", EMPTY))
    if isinstance(dataset, Dataset):
        _check(dataset, indices)
    return indices


def stratified(strata: Sequence[int] | np.ndarray, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    """Split the indices of a list of strata: first the rest, then splits of the given sizes, ascending.

    Every stratum is in each split in proportion, as near as whole samples allow; at least one sample of each is in the
    rest, so a stratum with a single sample is in no other split.
    """
    strata = np.asarray(strata)
    _, counts = np.unique(strata, return_counts=True)
    taken = np.zeros(len(counts), dtype=np.int64)
    shares = []
    for size in sizes:
        share = _apportion(size, counts, counts - 1 - taken, taken)
        taken += share
        shares.append(share)
    chosen: list[list[np.ndarray]] = [[] for _ in range(len(sizes) + 1)]
    by_stratum = np.split(np.argsort(strata, kind="stable"), np.cumsum(counts)[:-1])
    for index, members in enumerate(by_stratum):
        order = members[torch.randperm(len(members), generator=generator(seed, index)).numpy()]
        start = 0
        for number, share in enumerate(shares, 1):
            chosen[number].append(order[start : start + share[index]])
            start += share[index]
        chosen[0].append(order[start:])
    return [np.sort(np.concatenate([EMPTY, *members])) for members in chosen]


def _apportion(size: int, counts: np.ndarray, limits: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """How many samples of each stratum make up a split: in proportion, the largest remainders rounded up.

    Among equal remainders, strata that gave fewest so far come first; otherwise two small splits would be taken from
    the same half of the strata.
    """
    quota = size * counts / counts.sum()
    share: np.ndarray = np.minimum(np.floor(quota).astype(np.int64), limits)
    while share.sum() < size and (share < limits).any():
        missing = np.where(share < limits, quota - share, -np.inf)
        order = np.lexsort((np.arange(len(counts)), taken, -np.round(missing, 9)))
        order = order[: min(size - share.sum(), int((share < limits).sum()))]
        share[order] += 1
    return share


def _split(
    dataset: Dataset | StreamDataset, pool: np.ndarray, shares: tuple[Share, Share, Share], seed: int
) -> SplitIndices:
    """The samples of a pool split by these shares."""
    if isinstance(dataset, StreamDataset) or dataset.values is None:
        if isinstance(dataset, StreamDataset) and any(isinstance(share, Count) for share in shares):
            raise Failure("a stream can only be split by percentages, since its length is not known")
        strata = np.zeros(len(pool), dtype=np.int64)
    else:
        strata = np.asarray(dataset.target.strata(_at(dataset.values, pool)))
        _warn_of_single_samples(strata, dataset.target)
    train, val, test, _ = stratified(strata, _sizes(len(pool), shares), seed)
    return SplitIndices(pool[train], pool[val], pool[test])


def _resplit(
    dataset: Dataset | StreamDataset, predefined: dict[str, np.ndarray], shares: tuple[Share, Share, Share], seed: int
) -> SplitIndices:
    """Train and the predefined splits that have a share, put together and split again; the others as they are."""
    asked = {name: share for name, share in zip(("val", "test"), shares[1:], strict=True) if share is not None}
    pool = np.sort(np.concatenate([there for name, there in predefined.items() if name == "train" or name in asked]))
    fresh = _split(dataset, pool, (shares[0], asked.get("val", 0), asked.get("test", 0)), seed)
    val = fresh.val if "val" in asked else predefined.get("val", EMPTY)
    test = fresh.test if "test" in asked else predefined.get("test", EMPTY)
    return SplitIndices(fresh.train, val, test)


def _sizes(total: int, shares: tuple[Share, Share, Share]) -> tuple[int, int, int]:
    """How many samples val and test get, and how many are unused. Without a share, train gets the rest."""
    percent = sum(share for share in shares if isinstance(share, int | float))
    asked = sum(in_samples(share, total) for share in shares if isinstance(share, Count))
    if percent > 100 or asked + percent * total / 100 > total:
        raise Failure(f"the splits add up to more than the {total} samples of the dataset", "make them smaller")
    sizes = split_sizes(total, *shares)
    if sum(sizes) >= total:
        raise Failure("no samples are left for training", "make the other splits smaller")
    return sizes


def _warn_of_single_samples(strata: np.ndarray, target: Target) -> None:
    numbers, counts = np.unique(strata, return_counts=True)
    single = [target.stratum(int(number)) for number in numbers[counts == 1]]
    if single:
        named = ", ".join(single[:8]) + (" and others" if len(single) > 8 else "")
        has = "has only one sample, which is" if len(single) == 1 else "have only one sample each, which are"
        warnings.warn(f"{named} {has} used for training and never evaluated", Caution, stacklevel=4)


def _check(dataset: Dataset, indices: SplitIndices) -> None:
    """There is something to train on, and everything that is evaluated is trained."""
    if not len(indices.train):
        raise Failure("no samples are left for training")
    if dataset.values is None:
        return
    trained = _distinct(dataset.values, indices.train)
    for name, members in (("val", indices.val), ("test", indices.test)):
        if unseen := dataset.target.unseen(trained, _distinct(dataset.values, members)):
            raise Failure(f"{name} has {unseen}, which train does not have", "fix the spelling, or add it to train")


def _at(values: Sequence[Value], indices: np.ndarray) -> Sequence[Value]:
    """Some of the values. Of a million numbers in an array, no objects are made."""
    if isinstance(values, array):
        return array(values.typecode, np.asarray(values)[indices].tobytes())
    return [values[index] for index in indices.tolist()]


def _distinct(values: Sequence[Value], indices: np.ndarray) -> list[Value]:
    """The different ones of some values."""
    if isinstance(values, array):
        found: list[Value] = np.unique(np.asarray(values)[indices]).tolist()
        return found
    return list(dict.fromkeys(_at(values, indices)))
