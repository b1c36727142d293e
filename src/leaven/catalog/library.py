"""The names that the installed libraries offer, and the cards they mean.

Reads the index that `index.py` finds: a file only when its kind is asked for, a card only when its name is. Without an
index everything still works, with no names; `absent` gives the reason.
"""

import dataclasses
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leaven.cache import disk_cache
from leaven.catalog import index, versions
from leaven.catalog.card import Card, Parameter
from leaven.catalog.index import Index, Say
from leaven.catalog.traits import BY_KIND, as_tuples
from leaven.files import sealed
from leaven.terminal import status_line
from leaven.terminal.visible import visible

KINDS = ("model", "optimizer", "schedule", "loss", "transform", "data", "metric")


@cache
def installed() -> "Library":
    """The libraries of this environment."""
    return Library(versions.key())


def _to_stderr(message: str) -> None:
    """Print a message for a log; in a terminal, the status line says it."""
    if not status_line.is_watched():
        print(visible(message), file=sys.stderr, flush=True)


class Library:
    """One set of installed versions."""

    def __init__(self, key: str, survey: str = index.SURVEY) -> None:
        self._key = key
        self._survey = survey
        self._index: Index | None = None
        self._files: dict[str, _CardFile] = {}
        self._is_replaced = False

    def prepare(self, say: Say = _to_stderr) -> Index:
        """Finds the index, or has it built; `say` is called with a message before what takes long."""
        if self._index is None:
            self._index = index.cached(self._key) or index.build(self._key, say, self._survey)
        return self._index

    def is_indexed(self) -> bool:
        """Whether the index is already there."""
        return self._index is not None or index.cached(self._key) is not None

    def absent(self) -> Mapping[str, str]:
        """The libraries that offer nothing, each with the reason."""
        return self.prepare().absent

    def names(self, kind: str) -> tuple[str, ...]:
        """Every bare name of that kind that the libraries offer."""
        return tuple(self._file(kind).names)

    def find(self, kind: str, name: str) -> list[Card]:
        """All cards that a bare or qualified name may mean, the best first."""
        return self._file(kind).find(name)

    def _file(self, kind: str) -> "_CardFile":
        if kind not in self._files:
            self._files[kind] = (self._read(kind) if kind in KINDS else None) or _CardFile(kind)
        return self._files[kind]

    def _read(self, kind: str) -> "_CardFile | None":
        folder = self.prepare().folder
        if folder is None:
            return None
        if file := _read_file(folder, kind):
            return file
        if self._is_replaced or "torch" in self.absent():
            return None  # without torch a survey writes no cards
        self._is_replaced = True
        disk_cache.remove(folder)
        self._index = index.build(self._key, _to_stderr, self._survey)
        return _read_file(self._index.folder, kind) if self._index.folder else None


def _read_file(folder: Path, kind: str) -> "_CardFile | None":
    """The cards of a kind; None where their file is missing or damaged."""
    body = sealed.read(folder / f"{kind}.jsonl")
    if body is None:
        return None
    first, *lines = body.decode("ascii").split("\n")
    return _CardFile(kind, disk_cache.parse_json(first), lines)


class _CardFile:
    """The cards of one kind. `lines` are their texts, followed by those of the signatures they share."""

    def __init__(self, kind: str, table: Any = None, lines: list[str] | None = None) -> None:
        table = table or {}
        self.kind = kind
        self.names: dict[str, list[int]] = table.get("names", {})
        self._spellings: dict[str, list[int]] = table.get("spellings", {})
        self._renamed: dict[str, str] = table.get("renamed", {})
        self._card_count: int = table.get("cards", 0)
        self._lines = lines or []
        self._cards: dict[int, Card] = {}

    def find(self, name: str) -> list[Card]:
        source, _, rest = name.partition(".")
        if source not in versions.LIBRARIES:
            return self._bare(name)
        found = [card for card in self._bare(rest) if card.source == source]
        if not found and "." in rest:  # as Python writes it: torch.optim.AdamW
            last = name.rpartition(".")[2]
            found = [card for card in self._bare(last) if card.target == name]
        return found

    def _bare(self, name: str) -> list[Card]:
        if numbers := self.names.get(name) or self._spellings.get(name):
            return [self._card(number) for number in numbers]
        architecture, _, tag = name.partition(".")
        if tag and architecture in self.names and self.kind == "model":
            cards = self._bare(architecture)
            return [
                dataclasses.replace(card, name=f"{card.name}.{tag}", traits=card.model.tagged(tag))
                for card in cards
                if tag in card.model.weights
            ]
        return self.find(self._renamed[name]) if name in self._renamed else []

    def _card(self, number: int) -> Card:
        if number not in self._cards:
            self._cards[number] = self._build(self._entry(number))
        return self._cards[number]

    def _entry(self, line: int) -> Any:
        return disk_cache.parse_json(self._lines[line])

    def _build(self, entry: dict[str, Any]) -> Card:
        parameters = entry.get("parameters", ())
        if "signature" in entry:  # shared with other cards, up to some differences
            signature = self._entry(self._card_count + entry["signature"])
            without, changes = entry.get("without", ()), entry.get("changes", {})
            parameters = [one | changes.get(one["name"], {}) for one in signature if one["name"] not in without]
        return Card(
            kind=self.kind,
            source=entry["name"].partition(".")[0],
            parameters=tuple(Parameter(**as_tuples(fields)) for fields in parameters),
            traits=BY_KIND[self.kind](**as_tuples(entry.get("traits", {}))),
            **{key: entry[key] for key in ("name", "summary", "target", "friendly", "open_ended") if key in entry},
        )
