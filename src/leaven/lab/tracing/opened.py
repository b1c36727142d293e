"""The data of a recipe or of a run, opened as the program opens it, and the sample in it that a word means."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from leaven.catalog.lookup import nearest
from leaven.lab.program import Program, program_of, seed_of
from leaven.lab.run_data import opened_run
from leaven.lab.subject import Subject
from leaven.lab.tracing.steps import StepName
from leaven.plan.plan import Plan, Transforms
from leaven.plan.values import Bound, Call, lines_of
from leaven.runtime.data.batches import Data, IndexedSplit
from leaven.runtime.failures import Failure

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
_NEAR = 3
_MANY = 20_000  # names, among which looking for similar ones takes too long


@dataclass(frozen=True, eq=False)
class Opened:
    """A program with its plan and its data."""

    name: str
    plan: Plan
    program: Program
    data: Data
    is_run: bool = False


@contextmanager
def opened(subject: Subject | Plan) -> Iterator[Opened]:
    """The data of a recipe, or that with which a run was started, as long as the context lasts."""
    if isinstance(subject, Plan):
        with _of_plan(subject.name, subject) as found:
            yield found
        return
    plan = subject.plan
    if plan is None:
        raise Failure(f"{subject.name} has no recipe that says what its data is", "give the recipe, or its run")
    if subject.run is not None:
        with opened_run(subject.run, trust_code=subject.trust_code) as (program, data):
            yield Opened(subject.name, plan, program, data, is_run=True)
        return
    with _of_plan(subject.name, plan) as found:
        yield found


@contextmanager
def _of_plan(name: str, plan: Plan) -> Iterator[Opened]:
    with program_of(plan) as program, closing(program.build_data(seed_of(plan, program.args))) as data:
        yield Opened(name, plan, program, data)


def step_names(transforms: Transforms, applied: Sequence[Any]) -> list[StepName]:
    """The recipe's name of each transform, and its line; those of user code have the names of their classes."""
    if len(transforms.calls) != len(applied):  # the data is built by user code
        return [StepName(getattr(one, "__name__", type(one).__name__)) for one in applied]
    names, default = [], next(iter(lines_of(transforms.because)), None)
    for each in transforms.calls:
        call = each.call if isinstance(each, Bound) else each
        lines = lines_of(call.because)
        names.append(StepName(_name_of(call), lines[0] if lines else default if not call.because else None))
    return names


def _name_of(call: Call) -> str:
    """A call as the recipe has it; user code with its module."""
    if not call.is_user:
        return call.text
    given = call.text.partition("(")[2]
    return call.target if given in ("", ")") else f"{call.target}({given}"


# -- samples


@dataclass(frozen=True)
class Found:
    """A sample by its number in a split."""

    split: SplitName
    number: int


def find(data: Data, wanted: str | int, splits: Sequence[SplitName]) -> Found:
    """The sample that a name or a number means; a Failure with the nearest names where there is none."""
    if isinstance(wanted, int) or (isinstance(wanted, str) and wanted.lstrip("-").isdecimal()):
        return _numbered(data, int(wanted), splits[0])
    word = os.fspath(wanted)
    every = {name: _names(data, name) for name in SPLITS}
    found = [Found(split, at) for split in splits for at in _places(every[split], word)]
    if len(found) == 1 or (found and every[found[0].split][found[0].number] == word):
        return found[0]
    if found:
        some = ", ".join(every[one.split][one.number] for one in found[:_NEAR])
        raise Failure(f"{word} means {len(found)} samples: {some}{', …' if len(found) > _NEAR else ''}")
    others = [split for split in SPLITS if split not in splits and _places(every[split], word)]
    if others:
        raise Failure(f"{word} is not in {splits[0]}, but in {others[0]}", f"`--split {others[0]}`")
    names = [name for split in splits for name in every[split]]
    raise Failure(f"there is no sample {word} in {' or '.join(splits)}", _near(word, names))


def _numbered(data: Data, number: int, split: SplitName) -> Found:
    count = len(getattr(data, split))
    if not 0 <= number < count:
        raise Failure(
            f"{split} has no sample {number}", f"its samples are 0 to {count - 1}" if count else "it is empty"
        )
    return Found(split, number)


def _names(data: Data, split: SplitName) -> list[str]:
    part = getattr(data, split)
    if not isinstance(part, IndexedSplit):
        return []
    return [part.reader.dataset.name(index) for index in part.reader.indices.tolist()]


def _places(names: Sequence[str], word: str) -> list[int]:
    """Where a name is in a list: itself, or the end of a path."""
    end, whole = f"/{word.replace(os.sep, '/').removeprefix('./')}", os.path.abspath(word)
    exact = [at for at, name in enumerate(names) if name == word]
    return exact or [
        at
        for at, name in enumerate(names)
        if f"/{name.replace(os.sep, '/')}".endswith(end) or os.path.abspath(name) == whole
    ]


def _near(word: str, names: Sequence[str]) -> str:
    by_end = {os.path.basename(name): name for name in names[:_MANY]}
    close = [by_end[name] for name in nearest(os.path.basename(word), by_end, limit=_NEAR)]
    some = close or list(names[:_NEAR])
    return f"{'did you mean' if close else 'for example'} {' or '.join(some)}{'?' if close else ''}" if some else ""
