"""Texts with their targets, what a tokenizer makes of them, and models that take it."""

from collections.abc import Mapping, Sequence
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from leaven.formats.image_folder import PART_NAMES, files_below, sub_folders
from leaven.formats.target import plain
from leaven.formats.text_models import longest_input
from leaven.formats.texts import parts_of, text_fault
from leaven.runtime.model.text import head_of
from leaven.runtime.plain.datasets import Samples, predefined_in, table_cells, tables_of
from leaven.tasks.classification.target import in_order

TEXT_ENDINGS = (".txt", ".text", ".md")


def text_table(
    path: str,
    *,
    text: str | Sequence[str],
    target: Any,
    on_bad_file: str = "stop",  #: if skip
    **layout: Any,
) -> Samples:
    """The texts that a table lists, one or a pair per row; a folder may hold one table per split."""
    columns = (text,) if isinstance(text, str) else tuple(text)
    labels = target.columns  #: if targets
    labels = (target.column,)  #: if not targets
    splits: dict[str, list[tuple[Any, Any]]] = {}
    for split, file in tables_of(Path(path)).items():
        for cells in table_cells(file, columns, labels, layout):
            texts, given = [cell or "" for cell in cells[: len(columns)]], cells[len(columns) :]
            pair = texts[0] if len(texts) == 1 else tuple(texts), given[0] if len(given) == 1 else tuple(given)
            splits.setdefault(split, []).append(pair)
    pairs = [pair for rows in splits.values() for pair in rows]
    meaning, values = target.read([given for _, given in pairs])  #: if targets
    return Samples(meaning.names, [text for text, _ in pairs], values, predefined_in(splits), meaning)  #: if targets
    names = [str(plain(given)) for _, given in pairs]  #: if not targets
    classes = in_order(set(names))  #: if not targets
    values = [classes.index(name) for name in names]  #: if not targets
    samples = Samples(tuple(classes), [text for text, _ in pairs], values, predefined_in(splits))  #: if class_names
    return target.called(samples)  #: if class_names
    return Samples(tuple(classes), [text for text, _ in pairs], values, predefined_in(splits))  #: if not targets and not class_names


def text_folder(
    path: str,
    *,  #: if listed_classes
    classes: Sequence[str],  #: if listed_classes
) -> Samples:
    """The texts of a folder with one sub-folder of files per class, optionally inside `train/`, `val/` and `test/`."""
    folder, tops = Path(path), sub_folders(Path(path))
    known = {part: folder / top for part, names in PART_NAMES.items() for top in tops if top.lower() in names}
    parts = known if "train" in known and len(known) == len(tops) else {"": folder}
    classes = [name for name in sub_folders(next(iter(parts.values()))) if name in classes]  #: if listed_classes
    classes = sub_folders(next(iter(parts.values())))  #: if not listed_classes
    splits: dict[str, list[tuple[str, int]]] = {}
    for part, there in parts.items():
        found = [(sorted(files_below(there / name)), at) for at, name in enumerate(classes)]
        splits[part] = [(file, at) for all, at in found for file in all if file.lower().endswith(TEXT_ENDINGS)]
    pairs = [pair for split in splits.values() for pair in split]
    texts = [Path(file).read_bytes().decode("utf-8-sig", "surrogateescape") for file, _ in pairs]
    return Samples(tuple(classes), texts, [at for _, at in pairs], predefined_in(splits))


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

    def together(self, samples: Sequence[tuple[Any, Any]]) -> Any:
        """Texts and targets as a batch."""
        samples = [sample for sample in samples if sample[0] is not None]  #: if skip
        if not samples:  #: if skip
            return None
        texts, targets = zip(*samples, strict=True)
        length = self.max_length if self.padding == "max_length" else None
        batch = self.tokenizer.pad(
            list(texts), padding=self.padding, max_length=length, return_tensors="pt", verbose=False
        )
        return dict(batch), torch.tensor(targets)


class EncodedTexts:
    """The tokens of all texts, each tokenized once."""

    def __init__(self, texts: Sequence[Any], tokenizer: Tokenizer) -> None:
        self.unusable = {at for at, text in enumerate(texts) if text_fault(text) is not None}  #: if skip
        texts = ["" if at in self.unusable else text for at, text in enumerate(texts)]  #: if skip
        columns = zip(*map(parts_of, texts), strict=True)
        found = tokenizer.tokenizer(*map(list, columns), truncation=True, max_length=tokenizer.max_length)
        names = [name for name in tokenizer.tokenizer.model_input_names if name in found]
        self.tokens = [{name: found[name][at] for name in names} for at in range(len(texts))]
        self.lengths = np.array([len(each["input_ids"]) for each in self.tokens])

    def __len__(self) -> int:  #: used
        return len(self.tokens)

    def __getitem__(self, index: int) -> Any:
        if index in self.unusable:  #: if skip
            return None
        return self.tokens[index]


def to_device(inputs: Mapping[str, Tensor], device: Any) -> dict[str, Tensor]:
    """The tensors of a batch on a device."""
    return {name: each.to(device) for name, each in inputs.items()}


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
        model = kind.from_pretrained(source, config=config, ignore_mismatched_sizes=True).float().train()
        if not keep_head:
            initialise_head(model)
    else:
        model = kind.from_config(config)
    if pooling == "mean":
        model.base_model.pooler = None  # what it says about whole texts is not used
    model.__class__ = taking_batches(type(model), pooling)
    return model  # type: ignore[no-any-return]


def initialise_head(model: Any) -> None:
    """A head as the library initialises it: the file may have one of the same size, for other classes."""
    for module in (each for name in head_of(model) for each in model.get_submodule(name).modules()):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=getattr(model.config, "initializer_range", 0.02))
            nn.init.zeros_(module.bias)


def taking_batches(kind: Any, pooling: str) -> Any:
    """A class of the library's whose models take a batch and return logits."""

    def forward(self: Any, inputs: Mapping[str, Tensor]) -> Any:
        return kind.forward(self, **inputs).logits

    def forward_mean(self: Any, inputs: Mapping[str, Tensor]) -> Any:
        hidden = self.base_model(**inputs)[0]
        counted = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return self.classifier(self.dropout((hidden * counted).sum(1) / counted.sum(1).clamp(min=1)))

    return type(kind.__name__, (kind,), {"forward": forward_mean if pooling == "mean" else forward})
