"""The flags that every program has besides those of its recipe: one list, for programs and for checks of recipes."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Flag:
    """A flag of all programs. Where it is not `kept`, it says where and how far to go, not what to train."""

    word: str
    options: dict[str, Any]  # of argparse
    kept: bool = False  # in the lock of a run, which is resumed with it
    needs: str = ""  # the flag without which it means nothing

    @property
    def name(self) -> str:
        """The attribute of parsed arguments."""
        return str(self.options.get("dest", self.word.replace("-", "_")))


def _number_of_devices(word: str) -> int | str:
    return word if word == "auto" else int(word)


_FINISH = "with --resume: train no further; save the best epoch so far, or a checkpoint of the run"
FLAGS = (
    Flag("output", {"metavar": "FOLDER", "help": "folder for runs (default: %(default)r)"}),
    Flag("resume", {"metavar": "RUN", "help": "resume an interrupted run in its folder"}),
    Flag(
        "more-epochs",
        {"type": int, "default": 0, "metavar": "N", "help": "with --resume: train N more epochs"},
        needs="resume",
    ),
    Flag("finish", {"nargs": "?", "const": "", "metavar": "CHECKPOINT", "help": _FINISH}, needs="resume"),
    Flag("train-only", {"action": "store_true", "help": "leave test scores and the bundle to --finish"}),
    Flag(
        "snapshot",
        {"metavar": "FILE", "help": "with --finish: write only this bundle, without test scores"},
        needs="finish",
    ),
    Flag("from", {"dest": "from_phase", "metavar": "PHASE", "help": "start with this phase"}, kept=True),
    Flag("of", {"metavar": "RUN", "help": "with --from: the run that did the phases before"}),
    Flag("quick", {"action": "store_true", "help": "smoke test: two batches of everything"}, kept=True),
    Flag("devices", {"type": _number_of_devices, "help": "number of devices to train on"}, kept=True),
)
# an `arg` can't have the name of one; but for `output`, which is its default
RESERVED = frozenset(
    {"help", "machines", "name", *(flag.word.replace("-", "_") for flag in FLAGS if flag.word != "output")}
)
