"""Which items are trained on, which choose the best epoch, and which measure the result.

Decides the division alone; it has its own seed, so that runs with other training seeds are compared on the same items.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from leaven.runtime.chance import generator
from leaven.runtime.failures import Caution, Failure
from leaven.runtime.items import Items
from leaven.runtime.sets import Stream

NOTHING: np.ndarray = np.empty(0, dtype=np.int64)
CYCLE = 100  # a stream is divided by each item's place among a hundred


@dataclass(frozen=True)
class Parts:
    """The places of each part's items, ascending. In a stream they are places modulo CYCLE."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Count:
    """So many items, where a bare number would be a percentage."""

    number: int


Share = float | Count | None


def split(
    items: Items | Stream,
    *,
    train: Share = None,
    val: Share = None,
    test: Share = None,
    seed: int = 0,
    redivide: bool = False,
) -> Parts:
    """The parts of a data set, each class divided alike; percentages, or `Count(500)`.

    Parts that the data comes with are used as they are; where there is none for validation, `val` of train (a tenth)
    becomes one, never of test. Data without parts is divided 80/10/10. With `redivide`, those given parts for which
    something is said are put together with train and divided anew.
    """
    given = _given(items)
    if not given:
        if train is val is test is None:
            train, val, test = 80, 10, 10
        parts = _divided(items, np.arange(_length(items)), (train, val, test), seed)
    elif redivide:
        parts = _redivided(items, given, (train, val, test), seed)
    elif "val" in given:
        parts = Parts(given["train"], given["val"], given.get("test", NOTHING))
    else:
        fresh = _divided(items, given["train"], (None, 10 if val is None else val, 0), seed)
        parts = Parts(fresh.train, fresh.val, given.get("test", NOTHING))
    if isinstance(items, Items):
        _check_parts(items, parts)
    return parts


def stratified(labels: Sequence[int] | np.ndarray, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    """Divide the places of a list of labels: first what is left over, then parts of the given sizes, ascending.

    Every class is in each part in proportion, as near as whole items allow; one item of each class at least is left
    over, so a class with a single item is never in a part.
    """
    labels = np.asarray(labels)
    _, counts = np.unique(labels, return_counts=True)
    taken = np.zeros(len(counts), dtype=np.int64)
    shares = []
    for size in sizes:
        share = _apportion(size, counts, counts - 1 - taken, taken)
        taken += share
        shares.append(share)
    chosen: list[list[np.ndarray]] = [[] for _ in range(len(sizes) + 1)]
    by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    for index, places in enumerate(by_class):
        order = places[torch.randperm(len(places), generator=generator(seed, index)).numpy()]
        start = 0
        for part, share in enumerate(shares, 1):
            chosen[part].append(order[start : start + share[index]])
            start += share[index]
        chosen[0].append(order[start:])
    return [np.sort(np.concatenate([NOTHING, *part])) for part in chosen]


def _apportion(size: int, counts: np.ndarray, limits: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """How many items of each class make up a part: in proportion, the largest remainders rounded up.

    Among equal remainders the classes that gave least so far come first; otherwise two small parts would be taken from
    the same half of the classes.
    """
    quota = size * counts / counts.sum()
    share: np.ndarray = np.minimum(np.floor(quota).astype(np.int64), limits)
    while share.sum() < size and (share < limits).any():
        lacking = np.where(share < limits, quota - share, -np.inf)
        order = np.lexsort((np.arange(len(counts)), taken, -np.round(lacking, 9)))
        order = order[: min(size - share.sum(), int((share < limits).sum()))]
        share[order] += 1
    return share


def _divided(items: Items | Stream, pool: np.ndarray, shares: tuple[Share, Share, Share], seed: int) -> Parts:
    """The items of a pool as parts of these shares."""
    if isinstance(items, Stream) or items.labels is None:
        if isinstance(items, Stream) and any(isinstance(share, Count) for share in shares):
            raise Failure("a stream is divided by percentages, since nobody knows how many items it has")
        labels = np.zeros(len(pool), dtype=np.int64)
    else:
        labels = np.asarray(items.labels)[pool]
        _warn_of_single_items(labels, items.classes)
    train, val, test, _ = stratified(labels, _sizes(len(pool), *shares), seed)
    return Parts(pool[train], pool[val], pool[test])


def _redivided(
    items: Items | Stream, given: dict[str, np.ndarray], shares: tuple[Share, Share, Share], seed: int
) -> Parts:
    """Train and the given parts for which there is a share, put together and divided; the others as they are."""
    said = {name: share for name, share in zip(("val", "test"), shares[1:], strict=True) if share is not None}
    pool = np.sort(np.concatenate([places for name, places in given.items() if name == "train" or name in said]))
    fresh = _divided(items, pool, (shares[0], said.get("val", 0), said.get("test", 0)), seed)
    val = fresh.val if "val" in said else given.get("val", NOTHING)
    test = fresh.test if "test" in said else given.get("test", NOTHING)
    return Parts(fresh.train, val, test)


def _sizes(total: int, *shares: Share) -> tuple[int, int, int]:
    """How many items val and test get, and how many nobody. Without a word on train, it gets what is left over."""
    percent = sum(share for share in shares if isinstance(share, int | float))
    asked = sum(_items(share, total) for share in shares if isinstance(share, Count))
    if percent > 100 or asked + percent * total / 100 > total:
        raise Failure(f"the parts add up to more than the {total} items that there are", "make them smaller")
    train, val, test = shares
    sizes = [_items(val, total), _items(test, total), 0]
    if train is not None and (percent < 100 or asked):
        rest = max(0, total - _items(train, total) - sum(sizes))
        match val, test:
            case None, None:
                sizes = [(rest + 1) // 2, rest // 2, 0]
            case None, _:
                sizes[0] = rest
            case _, None:
                sizes[1] = rest
            case _:
                sizes[2] = rest
    if sum(sizes) >= total:
        raise Failure("no items are left to train on", "make the other parts smaller")
    return sizes[0], sizes[1], sizes[2]


def _items(share: Share, total: int) -> int:
    if share is None:
        return 0
    return share.number if isinstance(share, Count) else round(total * share / 100)


def _given(items: Items | Stream) -> dict[str, np.ndarray]:
    if isinstance(items, Items):
        return {name: np.asarray(places, dtype=np.int64) for name, places in items.given.items()}
    return {name: np.arange(CYCLE) for name in items.sources} if items.is_divided else {}


def _length(items: Items | Stream) -> int:
    return CYCLE if isinstance(items, Stream) else len(items)


def _warn_of_single_items(labels: np.ndarray, classes: Sequence[str]) -> None:
    numbers, counts = np.unique(labels, return_counts=True)
    single = [classes[number] for number in numbers[counts == 1]]
    if single:
        named = ", ".join(single[:8]) + (" and others" if len(single) > 8 else "")
        has = "has one item only, which is" if len(single) == 1 else "have one item each, which are"
        warnings.warn(f"{named} {has} trained on and never measured", Caution, stacklevel=4)


def _check_parts(items: Items, parts: Parts) -> None:
    """There is something to train on, and every class that is measured is trained."""
    if not len(parts.train):
        raise Failure("no items are left to train on")
    if items.labels is None:
        return
    labels = np.asarray(items.labels)
    trained = set(labels[parts.train].tolist())
    for name, places in (("val", parts.val), ("test", parts.test)):
        foreign = sorted(set(labels[places].tolist()) - trained)
        if foreign:
            named = ", ".join(items.classes[number] for number in foreign[:8])
            verb = "has the class" if len(foreign) == 1 else "has the classes"
            raise Failure(f"{name} {verb} {named}, which train has not", "spell it alike in both, or add it to train")
