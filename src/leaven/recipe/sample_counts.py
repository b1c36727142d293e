"""The number of samples of each split, where it is known before training."""

from collections.abc import Mapping
from typing import Any

from leaven.catalog.values import Invocation, Quantity, Written
from leaven.formats.split_sizes import Count, split_sizes


def sample_counts(split: Invocation, counts: Mapping[str, int]) -> tuple[int, int, int] | None:
    """How many samples train, val and test get, as `runtime.split` decides; None where that is not known.

    `counts` are those of the splits that the data comes with, or of all samples under ''.
    """
    shares = [_share(split.value(name)) for name in ("train", "val", "test")]
    if not counts or not all(share is None or isinstance(share, int | float | Count) for share in shares):
        return None
    train, val, test = shares
    if "" in counts:
        sizes = split_sizes(counts[""], train, val, test)
        return counts[""] - sum(sizes), sizes[0], sizes[1]
    if isinstance(split.origin, Written):
        asked = [name for name, share in (("val", val), ("test", test)) if share is not None]
        pool = sum(counts.get(name, 0) for name in ("train", *asked))
        sizes = split_sizes(pool, train, val or 0, test or 0)
        kept = {name: counts.get(name, 0) for name in ("val", "test")} | {
            name: size for name, size in zip(("val", "test"), sizes, strict=False) if name in asked
        }
        return pool - sum(sizes), kept["val"], kept["test"]
    if "val" in counts:
        return counts["train"], counts["val"], counts.get("test", 0)
    sizes = split_sizes(counts["train"], None, val, 0)
    return counts["train"] - sum(sizes), sizes[0], counts.get("test", 0)


def _share(value: object) -> Any:
    """A share as `split_sizes` takes it; anything else as it is."""
    if not isinstance(value, Quantity):
        return value
    return Count(int(value.amount)) if value.unit == "samples" else value.amount
