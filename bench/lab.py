"""Measure the lab: what the questions to a model cost.

Each part has its goal; README.md in this folder describes them. Exits with 1 if a goal is missed.
"""

import sys
from pathlib import Path

from command_line import CommandLine
from drawn import draw
from lab_api import answers
from lab_mistakes import mistakes


def main() -> int:
    line = CommandLine(__doc__)
    line.add("--rounds", type=int, default=200, help="answers of two models (default: %(default)s)")
    line.add("--photos", type=Path, help="classes with photos in train and val; without it, some are drawn")
    line.add("--evaluations", type=int, default=7, help="rounds of mistakes (default: %(default)s)")
    args = line.read(rounds=3, evaluations=1)
    photos = args.photos or draw(args.work / "drawn") / "hymenoptera" / "hymenoptera_data"
    met = [answers(args.work, args.rounds), mistakes(photos.resolve(), args.work, args.evaluations)]
    return line.judged(all(met))


if __name__ == "__main__":
    sys.exit(main())
