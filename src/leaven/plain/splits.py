"""Which samples are used for training, validation and testing."""

from collections.abc import Mapping

import numpy as np
import torch

from leaven.formats.split_sizes import Share, split_sizes
from leaven.plain.samples import Samples
from leaven.runtime.data.splits import EMPTY, stratified
from leaven.runtime.seeding import derive_seed


def split_samples(samples: Samples, *, val: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """A stratified split; shares in percent, the rest is for training."""
    counts = np.bincount(samples.targets)
    ends = [np.zeros_like(counts)]  # of each split in every class
    for share in (val, test):
        size = round(len(samples.targets) * share / 100)
        part, remainder = np.divmod(size * counts / counts.sum(), 1)
        by_remainder = np.lexsort((ends[-1], -np.round(remainder, 9)))  # rounded up: largest; ties: fewest so far
        part[by_remainder[: size - int(part.sum())]] += 1
        ends.append(ends[-1] + part.astype(int))
    found: dict[str, list[np.ndarray]] = {"val": [], "test": [], "train": []}
    for label in range(len(counts)):
        members = np.flatnonzero(np.asarray(samples.targets) == label)
        rng = torch.Generator().manual_seed(derive_seed(seed, label))
        order = members[torch.randperm(len(members), generator=rng)]
        for parts, chosen in zip(found.values(), np.split(order, [ends[1][label], ends[2][label]]), strict=True):
            parts.append(chosen)
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


# -- with few samples of a class, with splits that the data comes with, or with fewer shares


def split_by_shares(
    samples: Samples, *, train: Share = None, val: Share = None, test: Share = None, seed: int
) -> dict[str, np.ndarray]:
    """Stratified splits by percentages, or by numbers of samples."""
    if train is val is test is None:
        train, val, test = 80, 10, 10
    return split_pool(samples, np.arange(len(samples.inputs)), (train, val, test), seed)


def split_as_predefined(
    samples: Samples, *, train: Share = None, val: Share = None, test: Share = None, seed: int
) -> dict[str, np.ndarray]:
    """The splits that the data comes with; where there is none for validation, `val` (10 %) of train becomes one.

    Data without splits is split by the shares.
    """
    if not samples.predefined:
        return split_by_shares(samples, train=train, val=val, test=test, seed=seed)
    given = {"val": EMPTY, "test": EMPTY, **samples.predefined}
    if "val" in samples.predefined:
        return given
    fresh = split_pool(samples, given["train"], (None, 10 if val is None else val, 0), seed)
    return {**fresh, "test": given["test"]}


def split_anew(
    samples: Samples, *, train: Share = None, val: Share = None, test: Share = None, seed: int
) -> dict[str, np.ndarray]:
    """Stratified splits of the predefined one for training, together with those that get a share."""
    given: Mapping[str, np.ndarray] = samples.predefined
    if not given:
        return split_by_shares(samples, train=train, val=val, test=test, seed=seed)
    asked = [name for name, share in (("val", val), ("test", test)) if share is not None]
    pool = np.sort(np.concatenate([given.get(name, EMPTY) for name in ("train", *asked)]))
    fresh = split_pool(samples, pool, (train, val or 0, test or 0), seed)
    return {"val": EMPTY, "test": EMPTY, **given, **{name: fresh[name] for name in ("train", *asked)}}


def split_pool(
    samples: Samples, pool: np.ndarray, shares: tuple[Share, Share, Share], seed: int
) -> dict[str, np.ndarray]:
    """Some of the samples, split so that every class has its share of each split."""
    train, val, test, _ = stratified(samples.strata(pool), split_sizes(len(pool), *shares), seed)
    return {"train": pool[train], "val": pool[val], "test": pool[test]}
