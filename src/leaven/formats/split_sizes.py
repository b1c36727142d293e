"""How many samples each split gets; shares are percentages or numbers of samples."""

from typing import NamedTuple


class Count(NamedTuple):
    """A number of samples, where a plain number would be a percentage."""

    number: int


Share = float | Count | None


def split_sizes(total: int, train: Share, val: Share, test: Share) -> tuple[int, int, int]:
    """How many samples val and test get, and how many are unused. Without a share, train gets the rest."""
    shares = (train, val, test)
    percent = sum(share for share in shares if isinstance(share, int | float))
    sizes = [in_samples(val, total), in_samples(test, total), 0]
    if train is not None and (percent < 100 or any(isinstance(share, Count) for share in shares)):
        rest = max(0, total - in_samples(train, total) - sum(sizes))
        match val, test:
            case None, None:
                sizes = [(rest + 1) // 2, rest // 2, 0]
            case None, _:
                sizes[0] = rest
            case _, None:
                sizes[1] = rest
            case _:
                sizes[2] = rest
    return sizes[0], sizes[1], sizes[2]


def in_samples(share: Share, total: int) -> int:
    """A share as a number of samples."""
    if share is None:
        return 0
    return share.number if isinstance(share, Count) else round(total * share / 100)


def sizes_text(train: int, val: int, test: int) -> str:
    """`1,437 samples for training, 180 for validation, 180 for testing`."""
    others = [f"{count:,} for {purpose}" for count, purpose in ((val, "validation"), (test, "testing")) if count]
    return ", ".join([f"{train:,} samples for training", *others])
