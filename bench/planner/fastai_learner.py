"""The same training with fastai's Learner; prints the validation accuracy of the best epoch."""

import contextlib
import sys
from tempfile import TemporaryDirectory

from fastai.vision.all import (
    Adam,
    CrossEntropyLossFlat,
    DataLoader,
    DataLoaders,
    Learner,
    SaveModelCallback,
    accuracy,
)
from photos import BATCH, RATE, WORKERS, arguments, folders, model_of


def main() -> None:
    args = arguments()
    photos = folders(args)
    train = DataLoader(photos["train"], bs=BATCH, shuffle=True, num_workers=WORKERS)
    val = DataLoader(photos["val"], bs=BATCH, num_workers=WORKERS)
    model = model_of(args, len(photos["train"].classes))
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        learner = Learner(
            DataLoaders(train, val),
            model,
            loss_func=CrossEntropyLossFlat(),
            opt_func=Adam,
            metrics=accuracy,
            path=folder,
            train_bn=False,
        )
        best = SaveModelCallback(monitor="accuracy")
        with learner.no_bar(), learner.no_logging():
            learner.fit(args.epochs, RATE, cbs=best)
    print(float(best.best))


if __name__ == "__main__":
    main()
