"""Which values a sweep tries."""

import math
from pathlib import Path

import pytest

import leaven
from leaven.language.source import Source
from leaven.plan.plan_json import from_json, to_json
from leaven.statements.options import Options

RECIPE = """
arg lr: float = 0.1
arg width: int = 4
model conv(width) -> global_pool() -> linear(classes)
data digits()
optimizer sgd(lr=lr)
"""


def values(sweeps: str, *names: str, recipe: str = RECIPE, **options: str) -> list[tuple[object, ...]]:
    plan = leaven.make_plan(Source("r.leaven", f"{recipe}\n{sweeps}", Path()), Options(args=options))
    assert from_json(to_json(plan)) == plan
    trials = plan.sweep.trials if plan.sweep is not None else ()
    return [tuple(dict(trial.values)[name] for name in names) for trial in trials]


def test_a_range_is_covered_evenly_and_always_the_same() -> None:
    (found,) = zip(*values("sweep lr, log_range(1e-5, 1e-2), trials=30", "lr"), strict=True)
    assert list(found) == sorted(found)
    assert all(1e-5 <= value <= 1e-2 for value in found)
    below = [sum(math.floor(math.log10(value)) == power for value in found) for power in (-5, -4, -3)]
    assert all(9 <= count <= 11 for count in below)
    assert values("sweep lr, log_range(1e-5, 1e-2), trials=30", "lr") == [(value,) for value in found]
    other = values("sweep lr, log_range(1e-5, 1e-2), trials=30\ntrain seed=1", "lr")
    assert other != [(value,) for value in found]


def test_a_range_of_integers_has_integers() -> None:
    assert values("sweep width, range(2, 5), trials=50", "width") == [(2,), (3,), (4,), (5,)]
    assert len(values("sweep lr, range(0.1, 0.2)", "lr")) == 10


def test_a_list_is_tried_as_far_as_trials_goes() -> None:
    assert values("sweep lr, [0.1, 0.3, 0.1, 0.2]", "lr") == [(0.1,), (0.3,), (0.2,)]
    assert values("sweep lr, [0.1, 0.3, 0.2], trials=2", "lr") == [(0.1,), (0.3,)]


def test_an_option_takes_the_place_of_a_sweep() -> None:
    both = "sweep lr, [0.1, 0.3]\nsweep width, [2, 4]"
    assert values(both, "lr", "width") == [(0.1, 2), (0.1, 4), (0.3, 2), (0.3, 4)]
    assert values(both, "width", lr="0.5") == [(2,), (4,)]
    assert values(both, lr="0.5", width="8") == []


def test_an_arg_that_is_swept_needs_no_default() -> None:
    recipe = RECIPE.replace("arg lr: float = 0.1", "arg lr: float")
    assert values("sweep lr, [0.1, 0.3]", "lr", recipe=recipe) == [(0.1,), (0.3,)]


@pytest.mark.parametrize("sweep", ["sweep lr, [1]", "sweep lr, log_range(1e-4, 1e-2), trials=2"])
def test_the_program_is_that_of_the_recipe_without_the_sweep(sweep: str) -> None:
    with_sweep = leaven.generate(Source("r.leaven", f"{RECIPE}\n{sweep}", Path()))
    assert with_sweep == leaven.generate(Source("r.leaven", RECIPE, Path()))


FROZEN = """
arg lr: float = 0.1
model conv(4) -> global_pool() -> linear(classes)
data digits()
freeze all - head
optimizer sgd(lr=lr)
train epochs=3
sweep lr, [0.1, 0.2]
"""


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        ("", ""),
        ("train epochs=3, cache=off", "layers before the trained ones run in every epoch"),
        ("mixup 0.2", "layers before the trained ones run in every epoch"),
        ("log mlflow()", "mlflow logs one run at a time"),
        ("train epochs=3, devices=2", "they train on several devices"),
        ("sweep lr, [0.1]", "one trial"),
    ],
)
def test_trials_train_together_where_frozen_outputs_are_stored(added: str, reason: str) -> None:
    plan = leaven.make_plan(Source("r.leaven", FROZEN, Path()), Options(additions=(added,) if added else ()))
    assert plan.sweep is not None
    assert plan.sweep.together == (not reason)
    told = [choice.reason for choice in plan.choices if choice.about == "trials" and choice.chosen == choice.asked]
    assert told == ([reason] if reason and len(plan.sweep.trials) > 1 else [])
