"""The flags that every program has, besides those of its recipe."""

import argparse


def parse_args(parser: argparse.ArgumentParser, *, output: str) -> argparse.Namespace:
    """The command line, with the program's own flags added to the recipe's."""
    group = parser.add_argument_group("the run")
    taken = {option for action in parser._actions for option in action.option_strings}
    if "--output" not in taken:
        group.add_argument(
            "--output", default=output, metavar="FOLDER", help="where runs are kept (default: %(default)s)"
        )
    group.add_argument("--resume", metavar="RUN", help="go on with an interrupted run, or train a finished one further")
    group.add_argument("--more-epochs", type=int, default=0, metavar="N", help="with --resume: so many epochs more")
    group.add_argument(
        "--quick", action="store_true", help="two batches through everything, to find mistakes in seconds"
    )
    return parser.parse_args()
