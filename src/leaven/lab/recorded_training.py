"""The training of a run as it was recorded, also while it goes on: curves by step, layers over time, probe samples.

Reads `training.jsonl` and nothing else, without torch. A step is counted over all phases here.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from leaven.formats import run_folder
from leaven.formats.finite_json import as_json
from leaven.formats.training_record import number, read_rows, without_nan
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import visible

MOST_POINTS = 1000  # of a curve
FACTS = ("gradient", "weight", "update")
ACTIVATIONS = ("mean", "deviation", "dead", "nan", "inf")
Point = tuple[int, float]
Row = dict[str, Any]


@dataclass(frozen=True)
class Phase:
    """A phase of training; its first step follows the last one of the phase before."""

    number: int
    name: str
    before: int  # steps of earlier phases
    steps: int  # so far
    steps_per_epoch: int


@dataclass(frozen=True)
class Measurement:
    """A layer at a step; None where it has no such number, or was not computed."""

    step: int
    phase: int
    trainable: int  # parameters
    gradient: float | None
    weight: float | None
    update: float | None  # the norm of the update, relative to that of the weights
    activation: Mapping[str, float] | None  # mean, deviation, units, dead, nan, inf; None where it did not run

    @property
    def is_frozen(self) -> bool:
        return not self.trainable

    def value(self, name: str) -> float | None:
        """One of the numbers, by its name."""
        return getattr(self, name) if name in FACTS else (self.activation or {}).get(name)


@dataclass(frozen=True, repr=False)
class Training:
    """The record of a run; `next` is where rows that are added later will begin (`new_rows`)."""

    run: Path
    rows: Sequence[Row] = field(repr=False)
    next: int

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        found: dict[int, Row] = {}
        steps: dict[int, int] = {}
        for row in self.rows:
            phase = row["phase"]
            if row["kind"] == "phase":
                found.setdefault(phase, row)
            if isinstance(row.get("step"), int):
                steps[phase] = max(steps.get(phase, 0), row["step"])
        phases, before = [], 0
        for at in sorted({*found, *steps}):
            row, count = found.get(at, {}), steps.get(at, 0)
            name, per_epoch = str(row.get("name", at + 1)), row.get("steps_per_epoch")
            phases.append(Phase(at, name, before, count, per_epoch if isinstance(per_epoch, int) else 0))
            before += count
        return tuple(phases)

    @property
    def steps(self) -> int:
        """How many steps were recorded, in all phases."""
        return sum(phase.steps for phase in self.phases)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The curves that there are: `loss`, `lr`, `gradient`, and the scores of epochs."""
        found = {name for row in self._of("step") for name in ("loss", "lr", "gradient") if name in row}
        found |= {"gradient"} if any(number(row.get("gradient")) is not None for row in self._of("layers")) else set()
        scores = dict.fromkeys(name for row in self._of("epoch") for name in row.get("scores", {}))
        return (*(name for name in ("loss", "lr", "gradient") if name in found), *scores)

    def curve(self, name: str = "loss", most: int | None = MOST_POINTS) -> tuple[Point, ...]:
        """The points of a curve by step; of many those that keep its peaks, unless `most` is None."""
        points = list(self._points(name))
        return tuple(points if most is None else thinned(points, most))

    def _points(self, name: str) -> Iterable[Point]:
        if name in ("loss", "lr", "gradient"):
            known: dict[int, float] = {}
            for row in (row for row in self.rows if row["kind"] in ("step", "layers")):
                value = number(row.get(name))
                if value is not None and (row["kind"] == "step" or name == "gradient"):
                    known.setdefault(self._step(row), value)
            yield from sorted(known.items())
            return
        if name not in self.names:
            raise _failure(f"{self.run} has no curve `{name}`", f"it has {', '.join(self.names) or 'none'}")
        for row in self._of("epoch"):
            if (value := number(row.get("scores", {}).get(name))) is not None:
                yield self._step(row), value

    @cached_property
    def layers(self) -> dict[str, tuple[Measurement, ...]]:
        """What was measured of each layer, in the order of the steps."""
        found: dict[str, list[Measurement]] = {}
        for row in self._of("layers"):
            for path, each in row.get("layers", {}).items():
                if isinstance(each, dict):
                    found.setdefault(path, []).append(_measurement(each, self._step(row), row["phase"]))
        return {path: tuple(each) for path, each in found.items()}

    @cached_property
    def probes(self) -> tuple[Row, ...]:
        """The predictions for a few fixed validation samples, by epoch: `step`, `phase`, `epoch`, `samples`."""
        rows = [row for row in self._of("probes") if isinstance(row.get("samples"), list)]
        return tuple(
            {"step": self._step(row), **{name: row.get(name) for name in ("phase", "epoch", "samples")}} for row in rows
        )

    def _of(self, kind: str) -> Iterable[Row]:
        return (row for row in self.rows if row["kind"] == kind)

    def _step(self, row: Row) -> int:
        before = next((phase.before for phase in self.phases if phase.number == row["phase"]), 0)
        return before + int(row.get("step", 0))

    @as_json
    def to_json(self) -> dict[str, Any]:
        """Curves with at most 1,000 points, a strip of each layer, probe samples; NaN is the word `nan`."""
        whole = {
            "run": str(self.run),
            "steps": self.steps,
            "phases": [vars(phase) for phase in self.phases],
            "curves": {name: [list(point) for point in self.curve(name)] for name in self.names},
            "layers": {path: _strip(each) for path, each in self.layers.items()},
            "probes": list(self.probes),
            "next": self.next,
        }
        found: dict[str, Any] = without_nan(whole)
        return found

    def __repr__(self) -> str:
        loss = self.curve("loss", None) if "loss" in self.names else ()
        last = f", loss {score_text(loss[-1][1])}" if loss else ""
        return f"<Training of {visible(str(self.run))}: {self.steps:,} steps{last}, {len(self.layers)} layers>"


@dataclass(frozen=True)
class NewRows:
    """Rows that were added to a record, and where the next ones will begin."""

    rows: Sequence[Row] = field(repr=False)
    next: int

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {"rows": list(self.rows), "next": self.next}


def training(run: str | os.PathLike[str]) -> Training:
    """The record of a run, or of the newest one in a folder; it may still be training."""
    folder = folder_of(run)
    rows, end = read_rows(folder)
    return Training(folder, rows, end)


def new_rows(run: str | os.PathLike[str], since: int = 0) -> NewRows:
    """The rows of a record from `next` of an earlier call on: follows a run while it trains."""
    return NewRows(*read_rows(folder_of(run), since))


def folder_of(run: str | os.PathLike[str]) -> Path:
    """The folder of a run, or of the newest one in a folder."""
    path = Path(os.fspath(run))
    program = run_folder.newest(path, run_folder.PROGRAM)
    if program is None:
        raise _failure(*run_folder.not_a_run(path))
    return program.parent


def _failure(headline: str, help: str) -> Exception:
    from leaven.runtime.failures import Failure  # it comes with torch, which reading does not need

    return Failure(headline, help)


def _measurement(row: Mapping[str, Any], step: int, phase: int) -> Measurement:
    activation = row.get("activation")
    known = None
    if isinstance(activation, dict):
        numbers = {name: number(value) for name, value in activation.items()}
        known = {name: value for name, value in numbers.items() if value is not None}
    count = row.get("trainable")
    return Measurement(
        step=step,
        phase=phase,
        trainable=count if isinstance(count, int) else 0,
        gradient=number(row.get("gradient")),
        weight=number(row.get("weight")),
        update=number(row.get("update")),
        activation=known,
    )


def _strip(measured: Sequence[Measurement]) -> dict[str, list[Any]]:
    """What was measured of a layer, as columns; of many measurements, some."""
    every = math.ceil(len(measured) / MOST_POINTS)
    some = [each for at, each in enumerate(measured) if at % every == 0 or at == len(measured) - 1]
    columns: dict[str, list[Any]] = {name: [each.value(name) for each in some] for name in (*FACTS, *ACTIVATIONS)}
    states = ["frozen" if each.is_frozen else "" for each in some]
    is_computed = [each.activation is not None for each in some]
    return {"step": [each.step for each in some], **columns, "state": states, "is_computed": is_computed}


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many of the points of a curve: of each stretch the lowest and the highest, or what is not finite."""
    if len(points) <= most:
        return list(points)
    inner, stretches = points[1:-1], max(1, (most - 2) // 2)
    kept = {points[0], points[-1]}
    for at in range(stretches):
        stretch = inner[at * len(inner) // stretches : (at + 1) * len(inner) // stretches]
        if stretch:
            kept |= {min(stretch, key=_height), max(stretch, key=_height)}
    return sorted(kept, key=lambda point: point[0])


def _height(point: Point) -> float:
    """NaN is above everything."""
    return math.inf if math.isnan(point[1]) else point[1]
