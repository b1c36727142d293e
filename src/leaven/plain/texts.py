"""Texts with their targets, what a tokenizer makes of them, and models that take it."""

from collections.abc import Mapping, Sequence
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from leaven.formats.image_folder import PART_NAMES, files_below, sub_folders
from leaven.formats.text_models import longest_input
from leaven.formats.texts import parts_of, text_fault
from leaven.plain.batches import CollatingSplit, Unreadable, balanced_order, in_full_batches
from leaven.plain.samples import Samples, predefined_in
from leaven.plain.tables import Cells, ReadRows, table_cells, tables_of
from leaven.runtime.data.lengths import grouped_by_length
from leaven.runtime.model.text import _initialise_head
from leaven.runtime.seeding import derive_seed

TEXT_ENDINGS = (".txt", ".text", ".md")


def text_cells(
    path: str,
    rows: ReadRows,
    *,
    text: str | Sequence[str],
    labels: Sequence[str],
    missing: Sequence[Any] = (None, ""),
) -> Cells:
    """The texts that a table lists, one or a pair per row, and their labels; a folder may hold one table per split.

    A missing text is empty.
    """
    columns = [text] if isinstance(text, str) else text
    splits = table_cells(tables_of(Path(path)), rows, columns, labels, missing)
    return {
        split: [
            (tuple(each or "" for each in given) if len(columns) > 1 else given or "", told) for given, told in cells
        ]
        for split, cells in splits.items()
    }


def text_folder(path: str, *, classes: Sequence[str] = ()) -> Samples:
    """The texts of a folder with one sub-folder of files per class, optionally inside `train/`, `val/` and `test/`."""
    folder, tops = Path(path), sub_folders(Path(path))
    known = {part: folder / top for part, names in PART_NAMES.items() for top in tops if top.lower() in names}
    parts = known if "train" in known and len(known) == len(tops) else {"": folder}
    names = [name for name in sub_folders(next(iter(parts.values()))) if name in classes or not classes]
    splits: dict[str, list[tuple[str, int]]] = {}
    for part, there in parts.items():
        found = [(sorted(files_below(there / name)), at) for at, name in enumerate(names)]
        splits[part] = [(file, at) for all, at in found for file in all if file.lower().endswith(TEXT_ENDINGS)]
    pairs = [pair for split in splits.values() for pair in split]
    texts = [Path(file).read_bytes().decode("utf-8-sig", "surrogateescape") for file, _ in pairs]
    return Samples(tuple(names), texts, [at for _, at in pairs], predefined=predefined_in(splits))


# -- tokens


class Tokenizer:
    """Turns texts into token ids, with the tokenizer that a model was trained with.

    Texts of more than `max_length` tokens are truncated: by default to what the model can take. Batches are padded to
    their longest text, or always to `max_length`.
    """

    def __init__(self, source: str, *, max_length: int | None = None, padding: str = "longest") -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(source)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        told = (longest_input(AutoConfig.from_pretrained(source).to_dict()), self.tokenizer.model_max_length)
        limits = [limit for limit in told if limit is not None and limit < 10**6]  # a larger one means none
        self.max_length = max_length or min(limits, default=512)
        self.padding = padding


class EncodedTexts:
    """The tokens of all texts, each tokenized once."""

    def __init__(self, texts: Sequence[Any], tokenizer: Tokenizer) -> None:
        columns = zip(*map(parts_of, texts), strict=True)
        found = tokenizer.tokenizer(*map(list, columns), truncation=True, max_length=tokenizer.max_length)
        names = [name for name in tokenizer.tokenizer.model_input_names if name in found]
        self.tokens = [{name: found[name][at] for name in names} for at in range(len(texts))]
        self.lengths = np.array([len(each["input_ids"]) for each in self.tokens])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Any:
        return self.tokens[index]


class ReadableTexts(EncodedTexts):
    """The tokens of all texts, of which those can't be read that are empty or not UTF-8."""

    def __init__(self, texts: Sequence[Any], tokenizer: Tokenizer) -> None:
        self.faults = [text_fault(text) for text in texts]
        known = zip(texts, self.faults, strict=True)
        super().__init__([text if fault is None else ("",) * len(parts_of(text)) for text, fault in known], tokenizer)

    def __getitem__(self, index: int) -> Any:
        if self.faults[index] is not None:
            raise Unreadable
        return super().__getitem__(index)


class TextSplit(CollatingSplit):
    """A split of texts. Those of a batch are about equally long, to be padded little."""

    def __getitem__(self, index: int) -> Any:
        return self.samples.inputs[index], self.samples.targets[index]

    def order(self, rng: torch.Generator) -> Tensor:
        return torch.randperm(len(self.indices), generator=rng)

    def keys(self, epoch: int) -> Any:
        lengths = self.samples.inputs.lengths[self.indices]
        if self.name != "train":
            return self.indices[np.argsort(-lengths, kind="stable")].tolist()
        rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        order = grouped_by_length(self.order(rng).numpy(), lengths, self.batch_size, rng)
        return in_full_batches(self.indices[order], self.batch_size).tolist()

    def collate(self, samples: list[Any]) -> Any:
        texts, targets = zip(*samples, strict=True)
        length = self.transform.max_length if self.transform.padding == "max_length" else None
        pad = self.transform.tokenizer.pad
        batch = pad(list(texts), padding=self.transform.padding, max_length=length, return_tensors="pt", verbose=False)
        return batch, default_collate(list(targets))


class BalancedTextSplit(TextSplit):
    """A split of texts of which an epoch has about equally many of every class."""

    def order(self, rng: torch.Generator) -> Tensor:
        return balanced_order(self.samples.targets, self.indices, rng)


# -- the model


def packaged_folder(package: str) -> str:
    """The folder of an installed package that has a model in it."""
    found = [file for file in files(package) or () if file.name == "config.json" and len(file.parts) > 1]
    return str(Path(str(min(found, key=lambda file: len(file.parts)).locate())).parent)


def text_model(
    source: str,
    num_labels: int,
    *,
    pretrained: bool = False,
    pooling: str = "",
    keep_head: bool = False,
    **settings: Any,
) -> nn.Module:
    """A model for texts with so many outputs: it takes a batch of tokens, and returns logits.

    With `pooling="mean"`, the head gets the mean of what the model says about each token, in place of what the model
    itself has for whole texts. `settings` are those of the model's configuration.
    """
    config = AutoConfig.from_pretrained(source)
    for name, value in {"num_labels": num_labels, **settings}.items():
        setattr(config, name, value)
    kind: Any = AutoModelForSequenceClassification
    if pretrained:
        model: Any = kind.from_pretrained(source, config=config, ignore_mismatched_sizes=True).float().train()
        if not keep_head:
            _initialise_head(model)
    else:
        model = kind.from_config(config)
    if pooling == "mean":
        model.base_model.pooler = None  # what it says about whole texts is not used
    model.__class__ = taking_batches(type(model), pooling)
    return model  # type: ignore[no-any-return]


def taking_batches(kind: Any, pooling: str) -> Any:
    """A class of the library's whose models take a batch and return logits."""

    def forward(self: Any, inputs: Mapping[str, Tensor]) -> Any:
        return kind.forward(self, **inputs).logits

    def forward_mean(self: Any, inputs: Mapping[str, Tensor]) -> Any:
        hidden = self.base_model(**inputs)[0]
        counted = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return self.classifier(self.dropout((hidden * counted).sum(1) / counted.sum(1).clamp(min=1)))

    return type(kind.__name__, (kind,), {"forward": forward_mean if pooling == "mean" else forward})
