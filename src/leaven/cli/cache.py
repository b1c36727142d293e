"""`leaven cache`: what runs have stored to compute it only once, by what it is; verified and removed on request."""

import json
import re
import time
from collections.abc import Sequence
from typing import Any

import click

from leaven.cache.groups import Group, groups_of, what_is
from leaven.cache.store import Store, default_store
from leaven.cli.printing import echo
from leaven.cli.recipe_command import CANT_WRITE, USAGE_ERROR
from leaven.terminal import status_line
from leaven.terminal.byte_sizes import show_bytes

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_WORDS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d|w)(?:in|inutes?|ours?|ays?|eeks?)?", re.ASCII)


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
        echo(f"damaged: {what_is(entries[key])} ({key})" if described else f"damaged: {key}")
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
