"""Groups of stored entries, for people: those that are parts of one thing, with its description.

Many entries are parts of one thing, such as the features of one model for one dataset: those whose descriptions have
the same `group` are shown as one line, with an id by which they can be cleared.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from leaven.cache.store import Store, Stored, key_of
from leaven.terminal.visible import visible


@dataclass(frozen=True)
class Group:
    """Entries that are parts of one thing."""

    id: str
    what: str
    entries: Sequence[Stored]

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)

    @property
    def last_use(self) -> float:
        return max(entry.last_use for entry in self.entries)


def groups_of(store: Store) -> list[Group]:
    """The groups of a store, the most recently used first."""
    found: dict[str, list[Stored]] = {}
    for entry in store.entries():
        group = (entry.about or {}).get("group")
        found.setdefault(group if isinstance(group, str) else entry.key, []).append(entry)  # else one by itself
    return [Group(key_of(group=name)[:8], _summary(entries), entries) for name, entries in found.items()]


def _summary(entries: Sequence[Stored]) -> str:
    """`the frozen layers of ResNet up to layer4 (train 1,437, val 180)`: with the number of rows of each split."""
    rows: Counter[str] = Counter()
    for about in (entry.about or {} for entry in entries):
        if isinstance(about.get("rows"), int):
            rows[str(about.get("split", ""))] += about["rows"]
    counts = ", ".join(f"{split} {count:,}".strip() for split, count in sorted(rows.items()))
    return what_is(entries[0]) + (f" ({counts})" if counts else "")


def what_is(entry: Stored) -> str:
    """A description of an entry, in one line."""
    if entry.about is None:
        return "damaged; `leaven cache verify` removes it"
    group = entry.about.get("group")
    what = group if isinstance(group, str) else ", ".join(f"{name} {value}" for name, value in entry.about.items())
    return visible(what) or "without a description"
