"""Checking is linear: ten times the statements take at most twelve times the work, counted in function calls.

Calls are the same on every machine however busy it is; `bench/check.py` measures the time. What stands at the top of a
recipe holds in every phase, so only one of the two is many here.
"""

import cProfile
import gc
import pstats
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

import leaven
from leaven.language.source import Source

FEW = [200, pytest.param(1_000, marks=pytest.mark.slow)]  # and ten times as many
MOST = 12.0

HEAD = "model resnet18()\ndata digits()\n"


def lets(count: int) -> str:
    return "".join(f"let a{at} = {at} * 2 + 1\n" for at in range(count))


def used_lets(count: int) -> str:
    return "".join(f"let a{at} = {at} * 0 + 1\nfreeze last(a{at})\n" for at in range(count // 2))


def args(count: int) -> str:
    return "".join(f'arg a{at}: float = {at}  "an argument"\n' for at in range(count))


def freezes(count: int) -> str:
    return "freeze layer1.0.conv1\n" * count


def phases(count: int) -> str:
    """Each phase is three statements."""
    inside = "    freeze all - head\n    optimizer sgd(lr=0.1, momentum=0.9)\n"
    return "".join(f'phase "p{at}", epochs=1 {{\n{inside}}}\n' for at in range(count // 3))


def one_long_phase(count: int) -> str:
    return 'phase "only", epochs=1 {\n' + "    unfreeze head\n" * count + "}\n"


def everything(count: int) -> str:
    """Five statements at a time: an arg, a let that uses it, and a phase with two statements that use that."""
    return "".join(
        f"arg lr{at}: float = 1e-3\n"
        f"let twice{at} = lr{at} * 2\n"
        f'phase "p{at}", epochs=1 {{\n    freeze all - head\n    optimizer sgd(lr=twice{at})\n}}\n'
        for at in range(count // 5)
    )


def groups(count: int) -> str:
    return "optimizer sgd(lr=0.1) {\n" + "    group layer1, lr=0.2\n" * count + "}\n"


def changes(count: int) -> str:
    return "optimizer adamw()\n" + "".join(f"change optimizer, lr={at + 1}e-6\n" for at in range(count))


def changed_phases(count: int) -> str:
    return "".join(f'phase "p{at}", epochs=1\nchange phase, "p{at}", epochs=2\n' for at in range(count // 2))


def unknown_phases(count: int) -> str:
    return "".join(f'phase "p{at}", epochs=1\nchange phase, "q{at}", epochs=2\n' for at in range(count // 2))


def unknown_lets(count: int) -> str:
    return "".join(f"let twice{at} = 2\nema twwice{at}\n" for at in range(count // 2))


def unknown_statements(count: int) -> str:
    return "".join(f"freez{at} all\n" for at in range(count))


def missing_files(count: int) -> str:
    return "".join(f'distill resnet18(weights="{at}.pth")\n' for at in range(count))


RIGHT = [lets, used_lets, args, freezes, phases, one_long_phase, everything, groups, changes, changed_phases]
WRONG = [unknown_phases, unknown_lets, pytest.param(unknown_statements, marks=pytest.mark.slow), missing_files]


@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("written", RIGHT)
def test_ten_times_the_statements_are_about_ten_times_the_work(written: Callable[[int], str], few: int) -> None:
    compare(HEAD + written(few), HEAD + written(10 * few))


@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("written", WRONG)
def test_ten_times_the_mistakes_are_about_ten_times_the_work(written: Callable[[int], str], few: int) -> None:
    compare(HEAD + written(few), HEAD + written(10 * few), is_right=False)


def test_statements_at_the_top_are_read_once_for_all_phases() -> None:
    tops, phases = "freeze layer1.0.conv1\n" * 300, "".join(f'phase "p{at}", epochs=1\n' for at in range(300))
    each_alone = calls(HEAD + tops) + calls(HEAD + phases)
    assert calls(HEAD + tops + phases) < each_alone + 50 * 300 * 300


SLOW = [pytest.param(written, marks=pytest.mark.slow) for written in (everything, groups)]


@pytest.mark.parametrize("written", [phases, freezes, *SLOW])
def test_no_function_loops_over_earlier_items(written: Callable[[int], str]) -> None:
    few, many = (lines(HEAD + written(count)) for count in (100, 1_000))
    unequal = {code.co_qualname: (few[code], many[code]) for code in many if many[code] > 12 * few[code] + 1_000}
    assert not unequal


def test_garbage_is_collected_once_however_long_the_recipe_is() -> None:
    leaven.check(Source("long.leaven", HEAD))
    collected: list[int] = []

    def note(phase: str, found: dict[str, int]) -> None:
        if phase == "start":
            collected.append(found["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        checked = leaven.check(Source("long.leaven", HEAD + everything(500)))
    finally:
        gc.callbacks.remove(note)
    assert checked.recipe is not None
    assert gc.isenabled()
    assert len(collected) <= 1, "after the check"


def compare(few: str, many: str, is_right: bool = True) -> None:
    calls(few, is_right)  # what is done once is done
    work, more_work = calls(few, is_right), calls(many, is_right)
    assert more_work <= MOST * work, f"{more_work / work:.1f} times the work"


def calls(text: str, is_right: bool = True) -> int:
    """How many functions a check calls that finds no error, or errors where there are some."""
    source = Source("long.leaven", text)
    profile = cProfile.Profile()
    checked = profile.runcall(leaven.check, source)
    assert (checked.recipe is not None) is is_right, checked.diagnostics[:3]
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def lines(text: str) -> Counter[CodeType]:
    """How many lines of each function a check runs; each pass of a loop counts, in a comprehension too."""
    counted: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            counted[frame.f_code] += 1
        return count

    source, before = Source("long.leaven", text), sys.gettrace()
    leaven.check(source)  # what is done once is done
    sys.settrace(count)
    try:
        leaven.check(source)
    finally:
        sys.settrace(before)
    return counted
