"""What trials of a group share: what would be built from the same arguments, and the memory of frozen weights."""

from argparse import Namespace
from types import ModuleType
from typing import Any

import torch
from torch import nn

from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.seeding import seed_all
from leaven.runtime.trials.group import Group
from leaven.runtime.trials.shared import own_weights, share_building, share_weights


def built(build_data: Any, *trials: Namespace) -> list[Any]:
    """What the trials get from a program's function; each asks for it twice."""
    program = ModuleType("program")
    program.build_data = build_data  # type: ignore[attr-defined]
    program.build_model = lambda _classes: nn.Linear(2, 2)  # type: ignore[attr-defined]
    share_building(program)
    found: list[Any] = []

    def body(args: Namespace) -> None:
        seed_all(args.seed)
        found.append(program.build_data(args))
        found.append(program.build_model(2).weight)

    group = Group(lambda _waiting: None, StopSignal())
    group.run({str(number): lambda args=args: body(args) for number, args in enumerate(trials)})  # type: ignore[misc]
    problems = [trial.problem for trial in group.trials if trial.problem is not None]
    assert not problems
    return found


def trial(lr: float, photos: str = "photos", seed: int = 0) -> Namespace:
    return Namespace(lr=lr, photos=photos, seed=seed, resume=f"trial-{lr}")


def test_data_are_shared_by_trials_that_differ_in_other_arguments() -> None:
    one, _, other, _ = built(lambda args: [args.photos], trial(0.1), trial(0.2))
    assert one is other


def test_data_that_depend_on_an_argument_are_built_for_each_of_its_values() -> None:
    one, _, other, _, third, _ = built(lambda args: [args.photos], trial(0.1), trial(0.2, "others"), trial(0.3))
    assert one == ["photos"]
    assert other == ["others"]
    assert third is one


def test_a_function_that_reads_all_arguments_is_called_for_each_trial() -> None:
    one, _, other, _ = built(lambda args: dict(vars(args)), trial(0.1), trial(0.2))
    assert (one["lr"], other["lr"]) == (0.1, 0.2)


def test_models_are_copies_with_the_random_weights_of_their_seed() -> None:
    _, one, _, same, _, other = built(lambda args: [], trial(0.1), trial(0.2), trial(0.3, seed=1))
    assert torch.equal(one, same)
    assert one.data_ptr() != same.data_ptr()
    assert not torch.equal(one, other)


def test_frozen_weights_are_in_memory_once_until_a_model_goes_on_by_itself() -> None:
    one, other = (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    for model in (one, other):
        model[0].requires_grad_(False)
    share_weights(other, one, ["0.weight", "0.bias"])
    assert other[0].weight.data_ptr() == one[0].weight.data_ptr()
    assert other[1].weight.data_ptr() != one[1].weight.data_ptr()
    own_weights(other)
    with torch.no_grad():
        other[0].weight.zero_()
    assert one[0].weight.abs().sum() > 0
