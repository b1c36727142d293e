"""The scores of a run: those of every epoch, which epoch of each phase was the best, and where they are logged."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from leaven.runtime.run.folder import RunFolder
from leaven.runtime.run.loggers import Logger


class Judged(Protocol):
    """An evaluation that can be compared with a guess."""

    def caveats(self) -> tuple[str, ...]: ...

    def columns(self) -> dict[str, Any]: ...


class Scores:
    """`rows` has the scores of every epoch, `best_epochs` the number of the best one by phase. `monitor` names the
    score that decides which that is."""

    def __init__(self, folder: RunFolder, monitor: str, lower_is_better: Sequence[str]) -> None:
        self.monitor = monitor
        self.rows: list[dict[str, Any]] = []
        self.best_epochs: dict[str, int] = {}
        self.judged: dict[str, Judged] = {}  # the last evaluation of each split
        self.probes: list[dict[str, Any]] = []  # the predictions for a few samples in the last evaluation
        self.loggers: list[Logger] = []
        self._folder = folder
        self._lower_is_better = ("loss", *lower_is_better)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "best_epochs": self.best_epochs}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.rows, self.best_epochs = saved["rows"], saved["best_epochs"]

    def signed(self, name: str, score: float) -> float:
        """A score such that higher is better."""
        return -score if name.rpartition(".")[2] in self._lower_is_better else score

    def of_epoch(self, scores: Mapping[str, float], monitor: str | None = None) -> tuple[str, float]:
        """The name and the value of the score that decides; of the training loss where it was not measured."""
        name = monitor or self.monitor
        name = name if name in scores else "train.loss"
        return name, scores[name]

    def log_epoch(self, row: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        """Log the scores of an epoch, which are in a row of the table."""
        self.rows.append(dict(row))
        self._folder.write_metrics(self.rows)
        self.log(scores)

    def log(self, scores: Mapping[str, float]) -> None:
        for logger in self.loggers:
            logger.write(scores, len(self.rows))

    def close(self) -> None:
        """Close the loggers."""
        for logger in self.loggers:
            logger.close()

    def caveats(self, split: str) -> tuple[str, ...]:
        """What the last evaluation of a split says about a model that is no better than a guess."""
        return self.judged[split].caveats() if split in self.judged else ()

    def columns(self, split: str) -> dict[str, Any]:
        """What the last evaluation of a split measured of each sample; empty where that is not known."""
        return self.judged[split].columns() if split in self.judged else {}
