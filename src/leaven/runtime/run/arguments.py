"""The flags that every program has, besides those of its recipe; and what an interrupted run was given."""

import argparse
import os
from pathlib import Path
from typing import Any

from leaven.formats.run_folder import LOCK, read_json
from leaven.runtime.failures import Failure

_NOT_KEPT = ("resume", "more_epochs", "output", "of")  # they say where and how far to go, not what to train


def parse(parser: argparse.ArgumentParser, *, output: str) -> argparse.Namespace:
    """The command line, with the program's own flags added to the recipe's.

    A resumed run is given what it was given at first, unless the command line says otherwise. Under torchrun, which
    starts the processes itself, the number of devices is the number of these.
    """
    group = parser.add_argument_group("the run")
    group.add_argument("--output", default=output, metavar="FOLDER", help="where runs are kept (default: %(default)s)")
    group.add_argument("--resume", metavar="RUN", help="go on in the folder of a run that was interrupted")
    group.add_argument("--more-epochs", type=int, default=0, metavar="N", help="with --resume: train so much further")
    group.add_argument("--from", dest="from_phase", metavar="PHASE", help="skip the phases before this one")
    group.add_argument("--of", metavar="RUN", help="with --from: the run that did them, whose weights are taken")
    group.add_argument("--quick", action="store_true", help="two batches through everything, to find mistakes early")
    group.add_argument("--devices", type=_devices, help="on how many to train")
    args = parser.parse_args()
    if args.resume:
        parser.set_defaults(**_given_before(Path(args.resume)))
        args = parser.parse_args()
    args.devices = int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or args.devices
    args.machines = int(os.environ.get("GROUP_WORLD_SIZE", 1))
    return args


def kept(args: argparse.Namespace) -> dict[str, Any]:
    """What of the command line decides the result, to be written into the lock."""
    return {name: value for name, value in vars(args).items() if name not in _NOT_KEPT}


def _given_before(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise Failure(f"{folder} {'is no folder of a run' if folder.exists() else 'does not exist'}")
    given = read_json(folder / LOCK).get("arguments")
    return given if isinstance(given, dict) else {}


def _devices(word: str) -> int | str:
    return word if word == "auto" else int(word)
