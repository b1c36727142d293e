"""Which samples are used for training, validation and testing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from leaven.runtime.plain.datasets import Samples
from leaven.runtime.plain.seeding import derive_seed


def split_samples(dataset: Samples, *, train: float, val: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """Splits in which every class has its share; the shares are percentages."""
    counts = np.bincount(dataset.targets)
    ends = [np.zeros_like(counts)]  # of each split in every class
    for share in (val, test):
        size = round(len(dataset.targets) * share / 100)
        part, remainder = np.divmod(size * counts / counts.sum(), 1)
        rounded_up = np.lexsort((ends[-1], -np.round(remainder, 9)))[: size - int(part.sum())]
        part[rounded_up] += 1
        ends.append(ends[-1] + part.astype(int))
    found: dict[str, list[np.ndarray]] = {"val": [], "test": [], "train": []}
    for label, members in enumerate(np.split(np.argsort(dataset.targets, kind="stable"), np.cumsum(counts)[:-1])):
        rng = torch.Generator().manual_seed(derive_seed(seed, label))
        order = members[torch.randperm(len(members), generator=rng)]
        for parts, chosen in zip(found.values(), np.split(order, [ends[1][label], ends[2][label]]), strict=True):
            parts.append(chosen)
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


# -- with few samples of a class, with splits that the data comes with, or with fewer shares


def stratified(strata: np.ndarray, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    """Indices of splits with these sizes, and of the rest, with every stratum in proportion."""
    _, counts = np.unique(strata, return_counts=True)
    ends = [np.zeros_like(counts)]
    for size in sizes:
        ends.append(ends[-1] + apportion(size, counts, ends[-1]))
    parts: list[list[np.ndarray]] = [[] for _ in ends]
    for number, members in enumerate(np.split(np.argsort(strata, kind="stable"), np.cumsum(counts)[:-1])):
        rng = torch.Generator().manual_seed(derive_seed(seed, number))
        order = members[torch.randperm(len(members), generator=rng)]
        for part, chosen in zip(parts, np.split(order, [end[number] for end in ends[1:]]), strict=True):
            part.append(chosen)
    return [np.sort(np.concatenate(part)) for part in parts]


def apportion(size: int, counts: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """How many samples of each stratum make up a split: the largest remainders are rounded up, among equal ones those
    of strata that gave fewest so far. One sample of each stratum is left for training."""
    limits, quota = counts - 1 - taken, size * counts / counts.sum()
    share: np.ndarray = np.minimum(np.floor(quota).astype(np.int64), limits)
    while share.sum() < size and (share < limits).any():
        missing = np.where(share < limits, quota - share, -np.inf)
        order = np.lexsort((np.arange(len(counts)), taken, -np.round(missing, 9)))
        share[order[: min(size - share.sum(), (share < limits).sum())]] += 1
    return share


@dataclass(frozen=True)
class Count:
    """A number of samples, where a plain number would be a percentage."""

    number: int


Share = float | Count | None


def split_by_shares(
    dataset: Samples,
    *,
    train: Share = None,
    val: Share = None,
    test: Share = None,
    seed: int = 0,
    resplit: bool = False,  #: if resplit
) -> dict[str, np.ndarray]:
    """Stratified splits by percentages, or by numbers of samples."""  #: if not predefined
    """The splits that the data comes with, or stratified ones by percentages or numbers of samples."""  #: if predefined
    if dataset.predefined:  #: if predefined
        shares = {"train": train, "val": val, "test": test}
        return from_predefined(dataset, shares, seed, resplit)  #: if resplit
        return from_predefined(dataset, shares, seed)  #: if not resplit
    if train is val is test is None:
        train, val, test = 80, 10, 10
    return split_pool(dataset, np.arange(len(dataset.inputs)), (train, val, test), seed)


def from_predefined(
    dataset: Samples,
    shares: dict[str, Share],
    seed: int,
    resplit: bool,  #: if resplit
) -> dict[str, np.ndarray]:
    """The splits that the data comes with; where there is none for validation, `val` (10 %) of train becomes one."""
    given = {name: np.empty(0, dtype=np.int64) for name in ("val", "test")} | dict(dataset.predefined)
    if resplit:  #: if resplit
        asked = [name for name in ("val", "test") if shares[name] is not None]
        pool = np.sort(np.concatenate([given[name] for name in ("train", *asked)]))
        fresh = split_pool(dataset, pool, (shares["train"], shares["val"] or 0, shares["test"] or 0), seed)
        return {**given, **{name: fresh[name] for name in ("train", *asked)}}
    if "val" in dataset.predefined:
        return given
    fresh = split_pool(dataset, given["train"], (None, 10 if shares["val"] is None else shares["val"], 0), seed)
    return {**fresh, "test": given["test"]}


def split_pool(
    dataset: Samples, pool: np.ndarray, shares: tuple[Share, Share, Share], seed: int
) -> dict[str, np.ndarray]:
    """Some of the samples, split so that every class has its share of each split."""
    strata = np.zeros(len(pool)) if dataset.targets is None else np.asarray(dataset.targets)[pool]  #: if user_data and not targets
    strata = np.asarray(dataset.targets)[pool]  #: if not user_data and not targets
    strata = np.asarray(dataset.target.strata([dataset.targets[index] for index in pool.tolist()]))  #: if targets and not masks
    strata = np.zeros(len(pool))  #: if masks
    val, test, _, train = stratified(strata, split_sizes(len(pool), *shares), seed)
    return {"train": pool[train], "val": pool[val], "test": pool[test]}


def split_sizes(total: int, train: Share, val: Share, test: Share) -> list[int]:
    """How many samples val and test get, and how many are unused. Without a share, train gets the rest."""

    def count(share: Share) -> int:
        return share.number if isinstance(share, Count) else round(total * (share or 0) / 100)

    sizes = [count(val), count(test), 0]
    percent = [share or 0 for share in (train, val, test) if not isinstance(share, Count)]
    if train is not None and (sum(percent) < 100 or len(percent) < 3):
        rest = max(0, total - count(train) - sum(sizes))
        if val is None and test is None:
            return [(rest + 1) // 2, rest // 2, 0]
        sizes[0 if val is None else 1 if test is None else 2] = rest
    return sizes
