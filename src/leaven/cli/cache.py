"""`leaven cache`: what runs have stored to compute it only once, by what it is; verified and removed on request.

Many entries are parts of one thing, such as the features of one model for one dataset: those whose descriptions have
the same `group` are shown as one line, with an id by which `clear` takes them.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from leaven.cache.store import Store, Stored, default_store, key_of
from leaven.cli.printing import echo
from leaven.cli.recipe_command import CANT_WRITE, USAGE_ERROR
from leaven.terminal import status_line
from leaven.terminal.byte_sizes import show_bytes
from leaven.terminal.visible import visible

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_WORDS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d|w)(?:in|inutes?|ours?|ays?|eeks?)?", re.ASCII)


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


def print_list(as_json: bool) -> int:
    """Print what is stored, the most recently used first; returns the exit code."""
    store = default_store()
    groups = groups_of(store)
    if as_json:
        echo(json.dumps(_plain(store, groups), indent=2))
        return 0
    total = show_bytes(sum(group.bytes for group in groups))
    echo(f"{store.folder}: {total} of at most {show_bytes(store.limit)}")
    if groups:
        echo(f"\n{'id':<8}  {'size':>7}  {'last use':<14}  what")
    for group in groups:
        echo(f"{group.id}  {show_bytes(group.bytes):>7}  {_ago(group.last_use):<14}  {group.what}")
    return 0


def verify_entries() -> int:
    """Read every entry and remove those that are damaged; the exit code is 1 if there were any."""
    store = default_store()
    entries = {entry.key: entry for entry in store.entries()}
    size = show_bytes(sum(entry.bytes for entry in entries.values()))
    with status_line.doing(f"reading {size}…"):
        good, damaged = store.verify()
    if not damaged:
        echo(f"{_count(good)}, {size}: none is damaged" if good else "nothing is stored")
        return 0
    for key in damaged:
        described = key in entries and entries[key].about is not None
        echo(f"damaged: {_what(entries[key])} ({key})" if described else f"damaged: {key}")
    left = {entry.key for entry in store.entries()} & set(damaged)
    if left:
        echo(f"{_count(len(left))} of them could not be removed from {store.folder}", err=True)
    else:
        echo(f"removed {_count(len(damaged))}, kept {good:,}. What is missing is computed again when it is needed.")
    return 1


def clear_entries(ids: Sequence[str], older_than: str | None) -> int:
    """Remove what is stored, all or some, and say how much; returns the exit code."""
    store = default_store()
    groups = groups_of(store)
    unknown = [id for id in ids if id not in {group.id for group in groups}]
    if unknown:
        echo(f"nothing stored has the id {' or '.join(unknown)}; `leaven cache list` lists the ids", err=True)
        return USAGE_ERROR
    meant = [entry for group in groups if not ids or group.id in ids for entry in group.entries]
    latest = time.time() - (_seconds(older_than) if older_than else 0.0)
    keys = {entry.key for entry in meant if entry.last_use <= latest}
    freed = store.clear(keys)
    left = keys & {entry.key for entry in store.entries()}
    echo(f"removed {_count(len(keys) - len(left))}, {show_bytes(freed)}")
    if left:
        echo(f"{_count(len(left))} could not be removed from {store.folder}", err=True)
        return CANT_WRITE
    return 0


def groups_of(store: Store) -> list[Group]:
    """What is stored, the most recently used first."""
    found: dict[str, list[Stored]] = {}
    for entry in store.entries():
        found.setdefault(_group(entry), []).append(entry)
    return [Group(key_of(group=name)[:8], _summary(entries), entries) for name, entries in found.items()]


def _group(entry: Stored) -> str:
    """The name of the group of an entry; one without a group is one by itself."""
    group = (entry.about or {}).get("group")
    return group if isinstance(group, str) else entry.key


def _summary(entries: Sequence[Stored]) -> str:
    """`the frozen layers of ResNet up to layer4 (train 1,437, val 180)`: with the number of rows of each split."""
    rows: Counter[str] = Counter()
    for about in (entry.about or {} for entry in entries):
        if isinstance(about.get("rows"), int):
            rows[str(about.get("split", ""))] += about["rows"]
    counts = ", ".join(f"{split} {count:,}".strip() for split, count in sorted(rows.items()))
    return _what(entries[0]) + (f" ({counts})" if counts else "")


def _what(entry: Stored) -> str:
    """What an entry is, in one line."""
    if entry.about is None:
        return "damaged; `leaven cache verify` removes it"
    group = entry.about.get("group")
    what = group if isinstance(group, str) else ", ".join(f"{name} {value}" for name, value in entry.about.items())
    return visible(what) or "without a description"


def _plain(store: Store, groups: Sequence[Group]) -> dict[str, Any]:
    return {
        "folder": str(store.folder),
        "limit": store.limit,
        "bytes": sum(group.bytes for group in groups),
        "groups": [
            {
                "id": group.id,
                "what": group.what,
                "bytes": group.bytes,
                "last_use": group.last_use,
                "entries": [{"key": entry.key, "bytes": entry.bytes, "about": entry.about} for entry in group.entries],
            }
            for group in groups
        ],
    }


def _ago(moment: float) -> str:
    """`3 hours ago`, in the largest unit of which there are at least two."""
    seconds = time.time() - moment
    for unit, length in reversed(_SECONDS.items()):
        if seconds >= 2 * length:
            return f"{int(seconds // length):,} {_WORDS[unit]}s ago"
    return "just now"


def _seconds(duration: str) -> float:
    """How many seconds `30d`, `12h` or `2 weeks` are."""
    found = _DURATION.fullmatch(duration.strip().lower())
    if not found:
        raise click.UsageError(f"`{duration}` is not a length of time; for example: --older-than 30d, 12h or 90m")
    return float(found[1]) * _SECONDS[found[2]]


def _count(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"
