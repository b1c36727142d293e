"""The same training with Lightning's Trainer; prints the validation accuracy of the best epoch."""

import contextlib
import sys
from tempfile import TemporaryDirectory

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from photos import BATCH, RATE, WORKERS, arguments, folders, model_of, trainable
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class Classifier(lightning.LightningModule):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        inputs, labels = batch
        return F.cross_entropy(self.model(inputs), labels)

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        inputs, labels = batch
        self.log("accuracy", (self.model(inputs).argmax(1) == labels).float().mean(), batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(trainable(self.model), lr=RATE)


def main() -> None:
    args = arguments()
    photos = folders(args)
    train = DataLoader(photos["train"], batch_size=BATCH, shuffle=True, num_workers=WORKERS)
    val = DataLoader(photos["val"], batch_size=BATCH, num_workers=WORKERS)
    model = model_of(args, len(photos["train"].classes))
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        best = ModelCheckpoint(folder, monitor="accuracy", mode="max")
        trainer = lightning.Trainer(
            max_epochs=args.epochs, callbacks=[best], logger=False, enable_progress_bar=False, accelerator="cpu"
        )
        trainer.fit(Classifier(model), train, val)
        accuracy = best.best_model_score
    assert accuracy is not None
    print(float(accuracy))


if __name__ == "__main__":
    main()
