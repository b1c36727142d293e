"""The same training with Hugging Face's Trainer; prints the validation accuracy of the best epoch."""

import contextlib
import sys
from tempfile import TemporaryDirectory
from typing import Any

import torch
from photos import BATCH, RATE, WORKERS, arguments, folders, model_of, trainable
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EvalPrediction, Trainer, TrainingArguments


class Classifier(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        outputs = self.model(inputs)
        return {"loss": F.cross_entropy(outputs, labels), "logits": outputs}


def collate(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    return {"inputs": torch.stack([image for image, _ in samples]), "labels": torch.tensor([it for _, it in samples])}


def accuracy(found: EvalPrediction) -> dict[str, Any]:
    return {"accuracy": (found.predictions.argmax(1) == found.label_ids).mean()}


def main() -> None:
    args = arguments()
    photos = folders(args)
    model = Classifier(model_of(args, len(photos["train"].classes)))
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                num_train_epochs=args.epochs,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=BATCH,
                dataloader_num_workers=WORKERS,
                lr_scheduler_type="constant",
                eval_strategy="epoch",
                save_strategy="best",
                metric_for_best_model="accuracy",
                disable_tqdm=True,
                report_to="none",
                use_cpu=not torch.cuda.is_available(),
            ),
            data_collator=collate,
            train_dataset=photos["train"],
            eval_dataset=photos["val"],
            compute_metrics=accuracy,
            optimizers=(torch.optim.AdamW(trainable(model), lr=RATE), None),
        )
        trainer.train()
        best = trainer.state.best_metric
    print(best)


if __name__ == "__main__":
    main()
