"""The cards of one kind while the survey collects them, and the file they are written to.

The file can be read in parts: a line with the checksum of the rest, a line with every name and the numbers of the cards
it may mean, then one line for each card and for each signature that several cards share. `leaven.catalog.library`
reads it.
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaven.files import sealed
from leaven.survey.docstring import first_sentence
from leaven.survey.names import spellings

if TYPE_CHECKING:
    from leaven.catalog.traits import Traits
    from leaven.survey.signature import Entry, Signature

_REPORTED_EVERY = 10
_BOUNDS: "dict[str, dict[str, Entry]]" = tomllib.loads(Path(__file__).with_name("bounds.toml").read_text("utf-8"))


class CardFile:
    """The cards of one kind, in the order in which a bare name is looked up. `report` is called with the progress."""

    def __init__(self, kind: str, report: Callable[[str], None] = lambda _: None) -> None:
        self.kind = kind
        self._report = report
        self.cards: list[dict[str, Any]] = []
        self.names: dict[str, list[int]] = {}  # the friendly names, which are listed and suggested
        self.spellings: dict[str, list[int]] = {}  # the others that are understood
        self.renamed: dict[str, str] = {}  # an old name, and the new one
        self._signatures: dict[str, int] = {}

    def counted(self, names: Sequence[str]) -> Iterator[str]:
        """The names of which cards are made, some of them reported by their number."""
        for number, name in enumerate(names, 1):
            if number % _REPORTED_EVERY == 0:
                self._report(f"{number:,} of {len(names):,}")
            yield name

    def add(
        self,
        name: str,
        target: str,
        signature: "Signature",
        *,
        spellings: Sequence[str],
        summary: str = "",
        traits: "Traits | None" = None,
    ) -> dict[str, Any]:
        """Adds a card; the first spelling is the friendly one."""
        number = len(self.cards)
        fields = {
            "name": name,
            "target": target,
            "friendly": spellings[0],
            "summary": summary,
            "parameters": self._bounded(signature.parameters),
            "open_ended": signature.open_ended,
            "traits": differences(type(traits)(), traits) if traits is not None else {},
        }
        card = {field: value for field, value in fields.items() if value}
        self.cards.append(card)
        self.names.setdefault(spellings[0], []).append(number)
        for spelling in spellings[1:]:
            self.spellings.setdefault(spelling, []).append(number)
        return card

    def add_class(self, class_: type, target: str, signature: "Signature", traits: "Traits") -> None:
        """Adds the card of a class by the last name of its import path, and by that of its library."""
        library, *_, name = target.split(".")
        summary, known_as = first_sentence(class_.__doc__), spellings(name, self.kind)
        self.add(f"{library}.{name}", target, signature, spellings=known_as, summary=summary, traits=traits)

    def share(self, parameters: "list[Entry]") -> int:
        """The number of a signature that several cards refer to."""
        return self._signatures.setdefault(_text(self._bounded(parameters)), len(self._signatures))

    def _bounded(self, parameters: "Iterable[Entry]") -> "list[Entry]":
        """Parameters with the usual bounds of their names."""
        usual = _BOUNDS.get(self.kind, {})
        bounded = [entry | usual.get(entry["name"], {}) for entry in parameters]
        for entry in bounded:
            if entry["name"] in usual and entry.get("items") == "float" and entry.get("default"):
                entry["length"] = len(entry["default"])
        return bounded

    def write(self, folder: Path) -> None:
        """Writes the file and syncs it to disk."""
        others = {spelling: numbers for spelling, numbers in self.spellings.items() if spelling not in self.names}
        index = {"names": self.names, "spellings": others, "renamed": self.renamed, "cards": len(self.cards)}
        lines = [_text(index), *map(_text, self.cards), *self._signatures]
        write_sealed(folder / f"{self.kind}.jsonl", lines)


def differences(usual: "Traits", traits: "Traits") -> dict[str, Any]:
    """The fields of `traits` that differ from the usual ones."""
    fields = zip(traits._fields, traits, usual, strict=True)
    return {name: value for name, value, usual_value in fields if value != usual_value}


def write_sealed(file: Path, lines: Iterable[str]) -> None:
    """Writes lines below their checksum, and syncs them to disk."""
    with file.open("wb") as stream:
        stream.write(sealed.seal("\n".join(lines).encode()))
        stream.flush()
        os.fsync(stream.fileno())


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
