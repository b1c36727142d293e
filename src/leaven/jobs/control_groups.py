"""Control groups of Linux, of version 1 and 2: where one can be made, what limits it, who was killed in it.

A group is made in the supervisor's own. Of version 2, a group that has processes can't have limited groups in it; then
the nearest group above is used in which this user may make one. So there are groups for root, in containers that allow
it, and where systemd has delegated one to the user. As a part of the supervisor, this uses only the standard library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping

from leaven.jobs.attempt_processes import PREFIX, hold, is_held, supervisor_name

_PERIOD = 100_000  # microseconds over which the time of cores is counted


def make_groups(attempt: str, limits: Mapping[str, int]) -> dict[str, set[str]]:
    """Groups for an attempt, one per hierarchy: their folders, with those of `memory` and `cpu` that are limited there.

    One of version 2 is made also without limits, since no process can leave it unnoticed.
    """
    groups: dict[str, set[str]] = {}
    with contextlib.suppress(OSError, ValueError):
        for place, controllers in _own_groups():
            is_second = not controllers
            wanted = {name: limit for name, limit in limits.items() if is_second or name in controllers}
            if is_second or wanted:
                groups |= _make(list(_upwards(place)) if is_second else [place], PREFIX + attempt, wanted)
    return groups


def possible_limits() -> set[str]:
    """The resources that groups can limit here, of `memory` and `cpu`: tried out."""
    attempt = f"check-{os.urandom(4).hex()}"
    name = hold(supervisor_name(attempt))
    groups = make_groups(attempt, {"memory": 2**30, "cpu": 1})
    remove(groups)
    if name is not None:
        name.close()
    return set().union(*groups.values())


def _make(places: list[str], name: str, wanted: Mapping[str, int]) -> dict[str, set[str]]:
    """A group of that name at the place where most of what is wanted can be limited; none if there is no place."""
    best: dict[str, set[str]] = {}
    for place in places:
        folder = os.path.join(place, name)
        with contextlib.suppress(OSError):
            _remove_left(place)
            os.mkdir(folder)
            for controller in wanted if os.path.exists(os.path.join(place, "cgroup.subtree_control")) else ():
                with contextlib.suppress(OSError):  # lets groups of version 2 in it be limited
                    write(place, "cgroup.subtree_control", f"+{controller}")
            limited = {controller for controller, limit in wanted.items() if _limit(folder, controller, limit)}
            worse = {folder: limited}
            if not best or len(limited) > len(*best.values()):
                best, worse = worse, best
            remove(worse)
            if limited == set(wanted):
                break
    return best


def remove(folders: Iterable[str]) -> None:
    """Remove groups, in which no process may be left."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def killed_in(folder: str) -> int:
    """How many processes of a group the kernel has killed because its memory was used up."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="utf-8") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _own_groups() -> Iterator[tuple[str, set[str]]]:
    """The group of this process in each hierarchy: its folder and its controllers, none for version 2."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = {names: path for _, names, path in (line.rstrip("\n").split(":", 2) for line in file)}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for words in mounts:
        kind, options = words[words.index("-") + 1], set(words[-1].split(","))
        names = next((each for each in own if each and set(each.split(",")) <= options), "")
        if kind == "cgroup2" or (kind == "cgroup" and names):
            names = names if kind == "cgroup" else ""
            path, root = own.get(names, "/"), words[3]
            below = os.path.relpath(path, root) if path.startswith(root) else "."
            yield os.path.normpath(os.path.join(words[4], below)), set(filter(None, names.split(",")))


def _upwards(place: str) -> Iterator[str]:
    """A group and those above it, as far up as this user may move processes from one to another of those below."""
    while os.access(os.path.join(place, "cgroup.procs"), os.W_OK):
        yield place
        place = os.path.dirname(place)


def _limit(folder: str, controller: str, limit: int) -> bool:
    """Limit a group of either version; whether that is possible. Swapped memory counts too."""
    if controller == "memory":
        main = {"memory.max": str(limit), "memory.limit_in_bytes": str(limit)}
        more = {"memory.swap.max": "0", "memory.memsw.limit_in_bytes": str(limit), "memory.oom.group": "1"}
    else:
        main = {"cpu.max": f"{limit * _PERIOD} {_PERIOD}", "cpu.cfs_quota_us": str(limit * _PERIOD)}
        more = {"cpu.cfs_period_us": str(_PERIOD)}
    there = os.listdir(folder)
    for name, text in (main | more).items():
        if name in there:
            with contextlib.suppress(OSError):
                write(folder, name, text)
    return any(name in there for name in main)


def _remove_left(place: str) -> None:
    """Remove groups of supervisors that were killed; one that still has processes can't be removed."""
    for name in os.listdir(place):
        if name.startswith(PREFIX) and not is_held(supervisor_name(name.removeprefix(PREFIX))):
            remove([os.path.join(place, name)])
