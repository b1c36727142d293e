"""Several processes store something together, or none of them does."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from leaven.cache.store_limit import StoreError
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.run.fabric import gathered
from leaven.runtime.seeding import generators_kept
from leaven.runtime.stored.identity import NotStored

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run

Found = TypeVar("Found")


def agreed(run: "Run", work: Callable[[], Found]) -> Found:
    """What each process finds, if all can; otherwise `NotStored` in all of them, with the reason of the first.

    All processes call it. Work that fails costs nothing but time: without the store, the run does the same.
    """
    found: list[Found] = []
    reason = ""
    try:
        with generators_kept():
            found.append(work())
    except Stopped:
        raise
    except (NotStored, StoreError) as problem:
        reason = str(problem)
    except Failure as failure:
        reason = failure.headline
    except OSError as problem:
        reason = f"the store can't be used: {problem.strerror or problem}"
    except Exception as problem:  # of tracing a model, or of running a part of it
        reason = f"of a {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"
    reasons = gathered(run.fabric, reason)
    if any(reasons):
        raise NotStored(next(filter(None, reasons)))
    return found[0]
