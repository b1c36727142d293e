"""Where scores are logged besides metrics.csv: TensorBoard, MLflow."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from leaven.runtime.failures import Failure


class Logger(Protocol):
    """Logs the scores of an epoch."""

    def write(self, scores: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files for TensorBoard, in the run's folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise Failure("TensorBoard is not installed", "pip install tensorboard") from None
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, scores: Mapping[str, float], step: int) -> None:
        for name, value in scores.items():
            self._writer.add_scalar(name.replace(".", "/"), value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class MLflow:
    """A run in MLflow."""

    def __init__(self, folder: Path, tracking_uri: str | None = None, experiment: str | None = None) -> None:
        try:
            mlflow = import_module("mlflow")
        except ImportError:
            raise Failure("MLflow is not installed", "pip install mlflow") from None
        self._mlflow: Any = mlflow
        if tracking_uri:
            mlflow.set_tracking_uri(tracking_uri)
        if experiment:
            mlflow.set_experiment(experiment)
        mlflow.start_run(run_name=folder.name)

    def write(self, scores: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(scores), step=step)

    def close(self) -> None:
        self._mlflow.end_run()
