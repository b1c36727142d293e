"""The flags that every program has besides those of its recipe, and those that an interrupted run was given."""

import argparse
import os
from pathlib import Path
from typing import Any

from leaven.cache.store_limit import StoreError, chosen_limit
from leaven.formats.run_folder import LOCK, read_json, was_quick
from leaven.runtime.failures import Failure

_FINISH = "with --resume: train no further; save the best epoch so far, or a checkpoint of the run"
_NOT_KEPT = (
    "resume",
    "more_epochs",
    "finish",
    "train_only",
    "snapshot",
    "output",
    "of",
)  # they say where and how far to go, not what to train


def parse(parser: argparse.ArgumentParser, *, output: str) -> argparse.Namespace:
    """The command line, with the flags of every program added to the recipe's.

    A resumed run gets the flags that it was started with, unless the command line says otherwise. Under torchrun,
    which starts the processes itself, the number of devices is the number of these.
    """
    group = parser.add_argument_group("run")
    group.add_argument("--output", default=output, metavar="FOLDER", help="folder for runs (default: %(default)r)")
    group.add_argument("--resume", metavar="RUN", help="resume an interrupted run in its folder")
    group.add_argument("--more-epochs", type=int, default=0, metavar="N", help="with --resume: train N more epochs")
    group.add_argument("--finish", nargs="?", const="", metavar="CHECKPOINT", help=_FINISH)
    group.add_argument("--train-only", action="store_true", help="leave test scores and the bundle to --finish")
    group.add_argument("--snapshot", metavar="FILE", help="with --finish: write only this bundle, without test scores")
    group.add_argument("--from", dest="from_phase", metavar="PHASE", help="start with this phase")
    group.add_argument("--of", metavar="RUN", help="with --from: the run that did the phases before")
    group.add_argument("--quick", action="store_true", help="smoke test: two batches of everything")
    group.add_argument("--devices", type=_devices, help="number of devices to train on")
    args = parser.parse_args()
    try:
        chosen_limit()
    except StoreError as problem:
        parser.error(str(problem))
    for flag, needed in (("more_epochs", "resume"), ("finish", "resume"), ("snapshot", "finish")):
        if getattr(args, flag) not in (None, 0) and getattr(args, needed) is None:
            parser.error(f"--{flag.replace('_', '-')} needs --{needed}")
    if args.resume:
        parser.set_defaults(**_given_before(Path(args.resume)))
        args = parser.parse_args()
        if args.more_epochs and was_quick(read_json(Path(args.resume) / LOCK)):
            parser.error(f"{args.resume} was a smoke test; it can't be trained further")
    args.devices = int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or args.devices
    args.machines = int(os.environ.get("GROUP_WORLD_SIZE", 1))
    return args


def kept(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that decide the result, for the lock."""
    return {name: value for name, value in vars(args).items() if name not in _NOT_KEPT}


def _given_before(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise Failure(f"{folder} {'is not the folder of a run' if folder.exists() else 'does not exist'}")
    given = read_json(folder / LOCK).get("arguments")
    return given if isinstance(given, dict) else {}


def _devices(word: str) -> int | str:
    return word if word == "auto" else int(word)
