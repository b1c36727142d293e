"""`leaven new` for texts: which columns of a table have the texts and the labels, and a first recipe for them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from leaven.catalog.value_text import quoted
from leaven.formats.finding import BadSource
from leaven.formats.tables import formats, open_table
from leaven.language.record import Record

SUGGESTED = {
    "minilm": "small and fast, for English; its weights are installed, nothing is downloaded",
    'transformers.auto("bert-base-cased")': "BERT, the usual first choice; weights are downloaded",
    'transformers.auto("roberta-base")': "often better, as large; weights are downloaded",
    'transformers.auto("bert-base-multilingual-cased")': "for a hundred languages; weights are downloaded",
}
_LABELS = ("label", "labels", "class", "category", "sentiment", "verdict", "target", "topic", "intent", "y")
_PAIRS = (("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"), ("question", "sentence"))
LOOKED_AT = 1000  # rows
MOST_CLASSES = 200
LARGE = 2_000  # samples, enough to train the whole model at once


class TextLook(Record):
    """What a table of texts contains."""

    file: Path
    source: str  # what reads it: csv
    text: tuple[str, ...]
    label: str
    classes: tuple[str, ...]
    rows: int

    @property
    def seen(self) -> str:
        columns = " and ".join(f"`{name}`" for name in self.text)
        counted = f"{len(self.classes)} classes in `{self.label}`"
        return f"{self.file}: {self.rows:,} rows; texts in {columns}, {counted}"


def is_table_of_texts(word: str) -> bool:
    return os.path.isfile(word) and word.lower().endswith(tuple(formats()))


def look_at_table(word: str) -> TextLook:
    """The columns of a table; one without texts and labels is a usage error."""
    file = Path(word)
    try:
        table = open_table(file)
        columns = list(table.columns())
        rows = [cells for _, cells in table.rows(columns)]
    except (OSError, ValueError, BadSource) as problem:
        raise click.UsageError(f"{file} can't be read: {getattr(problem, 'strerror', None) or problem}") from None
    if not rows:
        raise click.UsageError(f"{file} has no rows")
    some = {name: [row[at] for row in rows[:LOOKED_AT]] for at, name in enumerate(columns)}
    label = _label(some)
    text = _text(some, label)
    if label is None or not text:
        listed = ", ".join(columns[:8])
        raise click.UsageError(
            f"it is not clear which columns of {file} have texts and labels: {listed}; "
            f'write a recipe with `data csv("{file}", text="…", label="…")`'
        )
    classes = tuple(sorted({str(row[columns.index(label)]) for row in rows}))
    return TextLook(file, formats()[file.suffix.lower()].SOURCE, text, label, classes, len(rows))


def _label(some: Mapping[str, Sequence[Any]]) -> str | None:
    """The column of labels: by its name, or the one with fewest different values that occur several times."""
    for name in (*_LABELS, *(each for each in some if each.lower() in _LABELS)):
        if name in some:
            return name
    distinct = {name: len(set(map(str, cells))) for name, cells in some.items()}
    rows = len(next(iter(some.values())))
    few = {name: count for name, count in distinct.items() if 2 <= count <= min(MOST_CLASSES, rows // 2)}
    return min(few, key=lambda name: (few[name], name)) if few else None


def _text(some: Mapping[str, Sequence[Any]], label: str | None) -> tuple[str, ...]:
    """The column of texts: a known pair, or the one with the longest strings that have spaces."""
    for pair in _PAIRS:
        if set(pair) <= some.keys():
            return pair
    lengths = {
        name: sum(map(len, map(str, cells))) / len(cells)
        for name, cells in some.items()
        if name != label and any(" " in cell for cell in cells if isinstance(cell, str))
    }
    return (max(lengths, key=lambda name: lengths[name]),) if lengths else ()


def write_text_recipe(look: TextLook, path: str, model: str, epochs: int | None, scratch: bool) -> str:
    """The text of a first recipe, with what a newcomer changes first."""
    if model.endswith(")") and not scratch:
        call = f"{model[:-1]}, pretrained=true)"
    else:
        call = model if model.endswith(")") else f"{model}()" if scratch else f"{model}(pretrained=true)"
    columns = quoted(look.text[0]) if len(look.text) == 1 else f"[{', '.join(map(quoted, look.text))}]"
    named = ", ".join(" ".join(name.split()) for name in look.classes[:5]) + ", …" * (len(look.classes) > 5)
    length = f"train epochs={epochs}\n" if epochs is not None else ""
    body = f"\n{length}" if length else ""
    if not scratch and look.rows < LARGE and epochs is None:
        body = (
            "\n# First only the new head, then the whole model; `leaven show` prints the learning rates.\n"
            'phase "head", epochs=2 { freeze all - head }\nphase "all",  epochs=4\n'
        )
    data = f"{look.source}({quoted(path)}, text={columns}, label={quoted(look.label)})"
    return (
        f"# {len(look.classes)} classes, {look.rows:,} texts: {named}.\n"
        f"model {call}\n"
        f"data  {data} {{ tokenize max_length=128 }}\n"
        f"{body}"
    )
