"""The flags that every program has besides those of its recipe, and those that an interrupted run was given."""

import argparse
import os
from pathlib import Path
from typing import Any

from leaven.cache.store_limit import StoreError, chosen_limit
from leaven.formats.program_flags import FLAGS
from leaven.formats.run_folder import LOCK, read_json, was_quick
from leaven.runtime.failures import Failure


def parse(parser: argparse.ArgumentParser, *, output: str) -> argparse.Namespace:
    """The command line, with the flags of every program added to the recipe's.

    A resumed run gets the flags that it was started with, unless the command line says otherwise. Under torchrun,
    which starts the processes itself, the number of devices is the number of these.
    """
    group = parser.add_argument_group("run")
    for flag in FLAGS:
        group.add_argument(f"--{flag.word}", **flag.options)
    parser.set_defaults(output=output)
    args = parser.parse_args()
    try:
        chosen_limit()
    except StoreError as problem:
        parser.error(str(problem))
    for flag in FLAGS:
        if flag.needs and getattr(args, flag.name) not in (None, 0) and getattr(args, flag.needs) is None:
            parser.error(f"--{flag.word} needs --{flag.needs}")
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
    left_out = {flag.name for flag in FLAGS if not flag.kept}
    return {name: value for name, value in vars(args).items() if name not in left_out}


def _given_before(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise Failure(f"{folder} {'is not the folder of a run' if folder.exists() else 'does not exist'}")
    given = read_json(folder / LOCK).get("arguments")
    return given if isinstance(given, dict) else {}
