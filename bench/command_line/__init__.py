"""The command lines of the benchmarks, which are alike: DATA, `--work`, and `--smoke`, which starts a script in its
smallest form to see whether it runs.

    line = CommandLine(__doc__, data="a folder with sst2_sentence")
    line.add("--rounds", type=int, default=3)
    args = line.read(rounds=1)          # with --smoke: one round, and data that is drawn
    sys.exit(line.judged(is_met))       # with --smoke, no goal is missed
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# Leaven is the one of this checkout, here and in subprocesses.
SOURCES = str(Path(__file__).parents[2] / "src")
sys.path.insert(0, SOURCES)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (SOURCES, os.environ.get("PYTHONPATH"))))

_PLACE = tempfile.TemporaryDirectory()  # removed when the process ends


class CommandLine:
    """The arguments of a script: those that all have, and its own."""

    def __init__(self, doc: str | None, *, data: str = "") -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        self._parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
        self._needs = data
        self._is_smoke = False
        if data:
            self._parser.add_argument("data", type=Path, nargs="?", help=data)
        self._parser.add_argument("--work", type=Path, help="where to keep data and results, to go on after an end")
        self._parser.add_argument("--smoke", action="store_true", help="only see whether it runs, in its smallest form")

    def add(self, *flags: str, **settings: Any) -> None:
        """Another argument, as argparse takes it."""
        self._parser.add_argument(*flags, **settings)

    def read(self, **smallest: Any) -> argparse.Namespace:
        """The arguments; `work` is a folder that exists. A script that lacks its data ends here.

        With --smoke, those in `smallest` have these values, and the data is drawn.
        """
        args = self._parser.parse_args()
        args.work = (args.work or Path(_PLACE.name)).resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        self._is_smoke = args.smoke
        if args.smoke:
            vars(args).update(smallest)
        if self._needs and args.smoke:
            from drawn import draw

            args.data = draw(args.work / "drawn")
        if self._needs and args.data is None:
            print(f"skipped: needs {self._needs}, see bench/README.md")
            sys.exit(0)
        if self._needs:
            args.data = args.data.resolve()
        return args

    def judged(self, is_met: bool) -> int:
        """The exit code: 1 if a goal is missed, unless it was only tried out."""
        return 0 if is_met or self._is_smoke else 1
