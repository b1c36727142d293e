"""A text model: the tokenizer takes a string, or a pair of them.

Decides which strings are a text that the model can be given, and which fixed texts a model is compared on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from leaven.bundle.inputs.protocol import Example, Exported, InputKind, Meant, Measured, Size, name_of
from leaven.bundle.inputs.tables import table_of, table_to_json
from leaven.bundle.inputs.text_arguments import find_texts, in_one_line
from leaven.bundle.labels import relabelled
from leaven.formats.tables import layout_like, split_tables
from leaven.formats.target import Known, Target
from leaven.formats.texts import Text, text_fault
from leaven.runtime.data.datasets import Dataset, table, text_folder
from leaven.runtime.failures import Failure
from leaven.tasks.protocol import Task

_GOLDEN = (  # two each, for models that read pairs
    ("The quick brown fox jumps over the lazy dog.", "A fox is quick."),
    ("1,234 words — naïve, größer; 東京!", "None of them are ours."),
    ("no", "Yes, it is."),
)


@dataclass(frozen=True)
class Texts(InputKind):
    """Texts of one or two strings, which the model reads together."""

    parts: int = 1

    noun: ClassVar[str] = "text"
    heading: ClassVar[str] = "text"
    forms: ClassVar[tuple[str, ...]] = ("texts",)

    # -- in the file

    @classmethod
    def like(cls, example: Any) -> Self | None:
        match example:
            case str():
                return cls(1)
            case tuple() if all(isinstance(part, str) for part in example):
                return cls(len(example))
        return None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self | None:
        match data:
            case {"kind": "text", "mode": str(), "size": [parts]}:
                return cls(int(parts), **table_of(data))
        return None

    def to_json(self) -> dict[str, Any]:
        return {"kind": "text", "mode": "", "size": [self.parts], **table_to_json(self)}

    # -- when it is saved

    def golden_inputs(self, near: tuple[int, int], generator: torch.Generator) -> list[Tensor]:
        """The bytes of fixed texts, which hold nothing of the user's data either."""
        return [self._stored(text) for text in _GOLDEN]

    def large_inputs(self) -> list[Tensor]:
        """A page of text: some models treat long texts in other ways than short ones."""
        return [self._stored(("one more word " * 200, "and another " * 50))]

    def _stored(self, text: tuple[str, str]) -> Tensor:
        return torch.tensor(list("\0".join(text[: self.parts]).encode()), dtype=torch.uint8)

    def as_input(self, made: Tensor) -> Text:
        parts = tuple(bytes(made.tolist()).decode().split("\0"))
        return parts[0] if len(parts) == 1 else parts

    # -- for the card

    @property
    def example(self) -> Example:
        if self.parts == 2:
            return Example('("A man sleeps.", "Someone is asleep.")', '"A man sleeps." "Someone is asleep."')
        return Example('"I loved every minute"', '"I loved every minute"')

    def described(self, shape: Sequence[int], preprocess: Any) -> str:
        what = "A text" if self.parts == 1 else "A pair of texts"
        longest = _longest(preprocess)
        return f"{what}, which the tokenizer in this file splits into at most {longest} tokens; the rest is cut off."

    # -- to predict

    def is_one(self, given: Any) -> bool:
        """A tuple is a pair where the model takes pairs; else it is several texts, as a list always is."""
        return not isinstance(given, list) and not (isinstance(given, tuple) and self.parts == 1)

    def converted(self, given: Any) -> Text:
        """One string, or a pair of them; a Failure for anything else, and for what is empty or not Unicode."""
        texts = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not all(isinstance(text, str) for text in texts):
            wrong = next(text for text in texts if not isinstance(text, str))
            raise Failure(f"expected a text, got {type(wrong).__name__}", "give a string")
        if len(texts) != self.parts:
            has = f"{len(texts)} texts" if len(texts) > 1 else "a single text"
            help = "give a pair: (first, second)" if self.parts == 2 else "give one string at a time, or a list of them"
            raise Failure(f"the model takes {'pairs of texts' if self.parts == 2 else 'single texts'}, not {has}", help)
        text: Text = texts[0] if self.parts == 1 else texts
        if fault := text_fault(text):
            name = name_of(given, self.noun).strip()
            raise Failure(f"{name} {fault.fact}" if name else "the text is empty")
        return text

    def meant(self, arguments: Sequence[str], columns: Sequence[str], root: Path | None = None) -> Meant:
        texts, problems = find_texts(arguments, self.parts, tuple(columns) or self._columns, self.layout)
        return Meant([(in_one_line(text), text) for text in texts], problems, len(texts) == 1)

    def named(self, names: Sequence[str], folder: Path) -> Text:
        return names[0] if len(names) == 1 else tuple(names)

    def name_in(self, folder: Path, given: Any) -> Any:
        return given

    def shortened(self, name: str, width: int) -> str:
        """The beginning of a text says more than its end."""
        return name if len(name) <= width else name[: width - 1] + "…"

    # -- to evaluate

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of a table, unless others are asked for."""
        return self.columns or ("text",)

    def folder(self, path: Path, measured: Measured, task: Task, target: Target) -> Dataset | None:
        """A folder of files for each class; one of tables is a table."""
        is_folder = path.is_dir() and not split_tables(path)
        return relabelled(text_folder(path), target, self.noun) if is_folder else None

    def table(self, path: Path, measured: Measured, target: Known) -> Dataset:
        texts = tuple(measured.text or self._columns)
        layout = layout_like(path, (*texts, *target.columns), self.layout)
        column = texts[0] if len(texts) == 1 else texts
        return table(path, text=column, target=target, on_bad_file=measured.on_bad_file, **layout._asdict())

    # -- to export

    def exported(
        self, model: nn.Module, prepared: Sequence[Any], size: Size, *, shape: Sequence[int], preprocess: Any
    ) -> Exported:
        """Batches of any number of texts, of any length that the model takes, by the names of their tensors."""
        if size is not None:
            raise Failure("a text model has no image size", "leave out `size`")
        width = max(len(one["input_ids"]) for one in prepared)
        padded = [
            {name: nn.functional.pad(each, (0, width - len(each))) for name, each in one.items()} for one in prepared
        ]
        names = tuple(padded[0])
        length = torch.export.Dim("length", min=2, max=_longest(preprocess))
        sides = {0: torch.export.Dim("batch", min=1), 1: length}
        inputs = tuple(torch.stack([one[name] for one in padded]) for name in names)
        return Exported(_Named(model, names), names, inputs, (tuple(sides for _ in names),))


def _longest(preprocess: Any) -> int:
    """How many tokens the tokenizer makes at most."""
    longest: int = preprocess["arguments"]["max_length"]
    return longest


class _Named(nn.Module):
    """A text model that takes its tensors one by one."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *tensors: Tensor) -> Tensor:
        outputs: Tensor = self.model(dict(zip(self.names, tensors, strict=True)))
        return outputs
