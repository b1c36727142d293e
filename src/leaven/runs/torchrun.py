"""Runs a program in several processes by torchrun, and says in a few words how that ended.

This file is run, not imported, with the arguments of torchrun. A rank that a signal has ended can't say so itself, and
what the others say then is only that they were left alone; so it is named here. Of ranks that fail, the first one to
say why counts.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from leaven.files.atomic_files import write_text
from leaven.formats.machine import signal_name
from leaven.formats.run_folder import OUTCOME, read_json
from leaven.runs.packed import refuse_other_version
from leaven.runs.processes import INTERRUPTED

_STOPS = (-signal.SIGTERM, -signal.SIGINT, INTERRUPTED)  # exit codes of ranks that were asked to stop


def main() -> None:
    """Run torchrun to its end."""
    refuse_other_version()
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    try:
        run(parse_args(sys.argv[1:]))
    except SignalException as asked:  # the ranks have saved, or were only starting
        sys.exit(128 + asked.sigval)
    except ChildFailedError as failed:
        end({rank: failure.exitcode for rank, failure in failed.failures.items()})


def end(codes: dict[int, int]) -> NoReturn:
    """End as the ranks did that have failed, given with their exit codes."""
    file = Path(os.environ.get(OUTCOME) or os.devnull)
    own = {rank: code for rank, code in codes.items() if code not in _STOPS}  # torchrun stops the others
    if not own or read_json(file).get("outcome") == "stopped":
        sys.exit(INTERRUPTED)
    rank = min(own, key=lambda rank: (own[rank] >= 0, rank))
    if own[rank] < 0:
        _fail(file, f"rank {rank} was ended by {signal_name(-own[rank])} on {socket.gethostname()}", is_killed=True)
    said = first_word(file)
    if said is None:
        _fail(file, f"rank {rank} ended with exit code {own[rank]} on {socket.gethostname()}")
    if said[0]:
        _fail(file, f"rank {said[0]}: {said[1]}")
    sys.exit(1)


def first_word(file: Path) -> tuple[int, str] | None:
    """The rank that was the first to say why it failed, and what it said; None where none did."""
    said = []
    for each in (file, *file.parent.glob(f"{file.name}.*")):
        found, number = read_json(each), each.name.removeprefix(file.name).removeprefix(".") or "0"
        if number.isdecimal() and found.get("outcome") == "failed":
            said.append((each.stat().st_mtime_ns, int(number), str(found.get("reason", ""))))
    return min(said)[1:] if said else None


def _fail(file: Path, reason: str, *, is_killed: bool = False) -> NoReturn:
    if file != Path(os.devnull):
        write_text(file, json.dumps({"outcome": "failed", "reason": reason, "is_killed": is_killed}))
    sys.exit(f"error: {reason}")


if __name__ == "__main__":
    main()
