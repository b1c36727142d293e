"""Measure the lab: what the questions to a model cost.

Each part has its goal; README.md in this folder describes them. Exits with 1 if a goal is missed.
"""

import sys

from command_line import CommandLine
from lab_api import answers


def main() -> int:
    line = CommandLine(__doc__)
    line.add("--rounds", type=int, default=200, help="answers of two models (default: %(default)s)")
    args = line.read(rounds=3)
    return line.judged(answers(args.work, args.rounds))


if __name__ == "__main__":
    sys.exit(main())
