"""How many samples each training batch has, and what each of several processes gets of it.

The batches of an epoch are the same for any number of processes, so an optimizer step always averages the same samples,
and a run can be resumed with another number of processes in the middle of an epoch.
"""

from dataclasses import dataclass

from leaven.runtime.failures import Failure


@dataclass(frozen=True)
class Share:
    """The share of a process in a batch: the samples from `start` to `stop`, and which `part` of the batch they are.

    A process for which a small last batch has nothing left repeats the share of another, and its part is 0: every
    process must compute gradients in every step.
    """

    start: int
    stop: int
    part: float


def batch_sizes(count: int, batch_size: int, *, with_single: bool = False) -> list[int]:
    """How many samples the batches of an epoch have.

    A last batch of a single sample, which batch normalisation can't train on, is left out; in the next epoch it is
    another sample.
    """
    sizes = [batch_size] * (count // batch_size)
    last = count % batch_size
    return [*sizes, last] if last > 1 or (last and (with_single or not sizes)) else sizes


def share_of(size: int, batch_size: int, rank: int, world: int) -> Share:
    """The share of a process in a batch with `size` samples: all processes get the same number, or one more.

    None gets a single sample of a small last batch, for the sake of batch normalisation.
    """
    smallest = min(2, batch_size // world)
    parts = max(1, min(world, size // smallest))
    start, stop = bounds(size, rank % parts, parts)
    return Share(start, stop, (stop - start) / size if rank < parts else 0.0)


def bounds(size: int, number: int, parts: int) -> tuple[int, int]:
    """Where one of so many parts of `size` samples begins and ends."""
    return number * size // parts, (number + 1) * size // parts


def check_world(batch_size: int, world: int) -> None:
    """Every process needs a sample of a whole batch."""
    if batch_size < world:
        raise Failure(f"a batch of {batch_size} can't be divided among {world} processes", f"write `batch={world}`")
