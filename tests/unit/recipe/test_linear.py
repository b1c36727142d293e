"""Checking is linear: ten times the statements take at most twelve times as long, in processor time.

What stands at the top of a recipe holds in every phase, so only one of the two is many here.
"""

import gc
import time
from collections.abc import Callable

import pytest

import leaven
from leaven.language.source import Source

FEW, MANY = 1_000, 10_000
MOST = 12.0
ROUNDS, PATIENCE = 3, 4  # so many measurements of each; where they are disturbed, so many times more

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


RIGHT = [lets, used_lets, args, freezes, phases, one_long_phase, everything, changes, changed_phases]
WRONG = [unknown_phases, unknown_lets, unknown_statements, missing_files]


@pytest.mark.parametrize("written", RIGHT)
def test_ten_times_the_statements_take_about_ten_times_as_long(written: Callable[[int], str]) -> None:
    compare(HEAD + written(FEW), HEAD + written(MANY))


@pytest.mark.parametrize("written", WRONG)
def test_ten_times_the_mistakes_take_about_ten_times_as_long(written: Callable[[int], str]) -> None:
    compare(HEAD + written(FEW), HEAD + written(MANY), is_right=False)


def test_what_stands_at_the_top_is_looked_at_once_for_all_phases() -> None:
    """Each phase holds every technique at the top: a tenth of a millisecond for each is a lot."""
    tops, phases = "freeze layer1.0.conv1\n" * 300, "".join(f'phase "p{at}", epochs=1\n' for at in range(300))
    assert seconds(HEAD + tops + phases) < 300 * 300 * 1e-4


def compare(few: str, many: str, is_right: bool = True) -> None:
    seconds(few, is_right)  # what is done once is done
    fastest_few = fastest_many = float("inf")
    for _ in range(PATIENCE):
        for _ in range(ROUNDS):
            fastest_few, fastest_many = (
                min(fastest_few, seconds(few, is_right)),
                min(fastest_many, seconds(many, is_right)),
            )
        if fastest_many <= MOST * fastest_few:
            return
    pytest.fail(f"{fastest_many / fastest_few:.1f} times as long: {fastest_few:.3f} s, {fastest_many:.3f} s")


def seconds(text: str, is_right: bool = True) -> float:
    """The processor time of a check that finds no error, or errors where there are some."""
    source = Source("long.leaven", text)
    gc.collect()
    start = time.process_time()
    checked = leaven.check(source)
    taken = time.process_time() - start
    assert (checked.recipe is not None) is is_right, checked.diagnostics[:3]
    return taken
