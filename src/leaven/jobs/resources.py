"""The resources that a job needs and that an environment has: cores, memory, GPUs, processes, nodes, time."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from leaven.terminal.byte_sizes import show_bytes


@dataclass(frozen=True, slots=True)
class Slots:
    """Cores, bytes of memory and GPUs: of an environment, free in it, or needed by a job."""

    cpus: int = 0
    memory: int = 0
    gpus: int = 0

    def __sub__(self, other: "Slots") -> "Slots":
        return Slots(self.cpus - other.cpus, self.memory - other.memory, self.gpus - other.gpus)

    def __add__(self, other: "Slots") -> "Slots":
        return Slots(self.cpus + other.cpus, self.memory + other.memory, self.gpus + other.gpus)

    def has(self, needed: "Slots") -> bool:
        """Whether these are enough. What is not needed may be overdrawn."""
        pairs = ((self.cpus, needed.cpus), (self.memory, needed.memory), (self.gpus, needed.gpus))
        return all(need <= 0 or have >= need for have, need in pairs)

    def __str__(self) -> str:
        memory = [f"{show_bytes(self.memory)} of memory"] if self.memory else []
        return ", ".join([count_text(self.cpus, "core"), *memory, count_text(self.gpus, "GPU")])


@dataclass(frozen=True, slots=True)
class Resources:
    """The needs of a job: per node, except for `nodes`. No memory means that it is not counted, no minutes no limit."""

    cpus: int = 1
    memory: int = 0
    gpus: int = 0
    processes: int = 1
    nodes: int = 1
    minutes: float | None = None

    @property
    def slots(self) -> Slots:
        return Slots(self.cpus, self.memory, self.gpus)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back; what a later version may add is left out."""
        return cls(**{field.name: data[field.name] for field in fields(cls) if field.name in data})


_RANGES = {
    "cpus": (1, 100_000),
    "memory": (0, 2**60),
    "gpus": (0, 10_000),
    "processes": (1, 100_000),
    "nodes": (1, 100_000),
}
_LONGEST = 10 * 366 * 24 * 60  # minutes: ten years


def out_of_range(resources: Resources) -> str | None:
    """`cpus can't be -5`, of the first value that no job can need; None if there is none."""
    for name, (least, most) in _RANGES.items():
        value = getattr(resources, name)
        if not isinstance(value, int) or not least <= value <= most:
            return f"`{name}` can't be {value}"
    minutes = resources.minutes
    return f"`minutes` can't be {minutes}" if minutes is not None and not 0 < minutes <= _LONGEST else None


_LENGTH = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d)(?:in|inutes?|ours?|ays?)?", re.ASCII)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 1440.0}


def minutes_of(text: str) -> float | None:
    """The minutes of a length of time, as users write it (`90m`, `12h`, `30d`); None if it is none."""
    match = _LENGTH.fullmatch(text.strip().lower())
    return float(match[1]) * _MINUTES[match[2]] if match and float(match[1]) else None


def count_text(number: int, what: str) -> str:
    """`3 cores`, `1 core`, `no cores`."""
    return f"{number or 'no'} {what}{'s' * (number != 1)}"


def missing(needed: Slots, there: Slots) -> str | None:
    """`8 GPUs are needed, and it has 1 GPU`, if an environment can never run a job; None if it can."""
    for need, have, what in ((needed.gpus, there.gpus, "GPU"), (needed.cpus, there.cpus, "core")):
        if need > have:
            verb = "is" if need == 1 else "are"
            return f"{count_text(need, what)} {verb} needed, and it has {count_text(have, what)}"
    if needed.memory > there.memory > 0:
        return f"{show_bytes(needed.memory)} of memory are needed, and it has {show_bytes(there.memory)}"
    return None
