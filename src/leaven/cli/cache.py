"""`leaven cache`: what runs have stored to compute it only once, by what it is; verified and removed on request."""

import re
import sys
import time
from typing import Any

import click

from leaven.cache.groups import Group, groups_of, what_is
from leaven.cache.store import default_store
from leaven.cli import completion
from leaven.cli.command_group import Commands
from leaven.cli.exit_codes import CANT_WRITE, USAGE_ERROR
from leaven.cli.printing import echo, echo_json
from leaven.terminal import status_line
from leaven.terminal.byte_sizes import show_bytes

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_WORDS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d|w)(?:in|inutes?|ours?|ays?|eeks?)?", re.ASCII)


@click.group(cls=Commands)
def cache() -> None:
    """List, verify and clear what runs have stored.

    Runs store what can't change, such as the outputs of frozen layers, to compute it only once. LEAVEN_CACHE sets the
    folder, LEAVEN_STORE_LIMIT how large it may become (20GB); then the least recently used entries are removed.
    """


@cache.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with every entry.")
def list_groups(as_json: bool) -> None:
    """List what is stored, with its size and last use."""
    store = default_store()
    groups = groups_of(store)
    size = sum(group.bytes for group in groups)
    if as_json:
        listed = [_plain(group) for group in groups]
        echo_json({"folder": str(store.folder), "limit": store.limit, "bytes": size, "groups": listed})
        return
    echo(f"{store.folder}: {show_bytes(size)} of at most {show_bytes(store.limit)}")
    if groups:
        echo(f"\n{'id':<8}  {'size':>7}  {'last use':<14}  what")
    for group in groups:
        echo(f"{group.id}  {show_bytes(group.bytes):>7}  {_ago(group.last_use):<14}  {group.what}")


@cache.command()
def verify() -> None:
    """Find damaged entries, and remove them.

    Every entry is read and compared with its checksum. The exit code is 1 if one was damaged. Runs do the same with
    what they use.
    """
    store = default_store()
    entries = {entry.key: entry for entry in store.entries()}
    size = show_bytes(sum(entry.bytes for entry in entries.values()))
    with status_line.doing(f"reading {size}…"):
        good, damaged = store.verify()
    if not damaged:
        echo(f"{_count(good)}, {size}: none is damaged" if good else "nothing is stored")
        return
    for key in damaged:
        described = key in entries and entries[key].about is not None
        echo(f"damaged: {what_is(entries[key])} ({key})" if described else f"damaged: {key}")
    left = {entry.key for entry in store.entries()} & set(damaged)
    if left:
        echo(f"{_count(len(left))} of them could not be removed from {store.folder}", err=True)
    else:
        echo(f"removed {_count(len(damaged))}, kept {good:,}. What is missing is computed again when it is needed.")
    sys.exit(1)


@cache.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.stored)
@click.option("--older-than", metavar="TIME", help="Only what has not been used for so long: 30d, 12h, 90m.")
def clear(ids: tuple[str, ...], older_than: str | None) -> None:
    """Remove what is stored.

    An ID is one that `leaven cache list` prints; without one, everything is removed. Runs in progress keep what they
    have opened.
    """
    store = default_store()
    groups = groups_of(store)
    unknown = [id for id in ids if id not in {group.id for group in groups}]
    if unknown:
        echo(f"nothing stored has the id {' or '.join(unknown)}; `leaven cache list` lists the ids", err=True)
        sys.exit(USAGE_ERROR)
    meant = [entry for group in groups if not ids or group.id in ids for entry in group.entries]
    latest = time.time() - (_seconds(older_than) if older_than else 0.0)
    keys = {entry.key for entry in meant if entry.last_use <= latest}
    freed = store.clear(keys)
    left = keys & {entry.key for entry in store.entries()}
    echo(f"removed {_count(len(keys) - len(left))}, {show_bytes(freed)}")
    if left:
        echo(f"{_count(len(left))} could not be removed from {store.folder}", err=True)
        sys.exit(CANT_WRITE)


def _plain(group: Group) -> dict[str, Any]:
    entries = [{"key": entry.key, "bytes": entry.bytes, "about": entry.about} for entry in group.entries]
    facts = {"id": group.id, "what": group.what, "bytes": group.bytes, "last_use": group.last_use}
    return {**facts, "entries": entries}


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
