"""The plan tells how many samples each split has, and they are those that the program will find."""

import re

import pytest

import leaven
from leaven import runtime
from leaven.language.source import Source
from leaven.planning.explain import explain
from leaven.runtime.data.splits import split

NET = "model conv(8) -> global_pool() -> linear(classes)\n"


@pytest.mark.parametrize(
    ("written", "shares"),
    [
        ("", {}),
        ("split train=70%, val=30%", {"train": 70, "val": 30}),
        ("split val=100 samples", {"val": runtime.Count(100)}),
        ("split train=50%", {"train": 50}),
        (
            "split train=640 samples, val=64 samples, test=33 samples",
            {"train": runtime.Count(640), "val": runtime.Count(64), "test": runtime.Count(33)},
        ),
    ],
)
def test_the_numbers_are_those_of_the_program(written: str, shares: dict[str, float]) -> None:
    plan = leaven.make_plan(Source("a.leaven", f"{NET}data digits() {{ {written} }}\ntrain epochs=3, batch=50\n"))
    found = split(runtime.digits(), **shares, resplit=bool(shares))
    assert plan.data.samples == (len(found.train), len(found.val), len(found.test))
    told = re.search(r"batch 50: ([\d,]+) steps per epoch, ([\d,]+) in all", explain(plan))
    assert told is not None
    data = runtime.Data(runtime.digits(), found, train_transform=None, eval_transform=None, batch_size=50)
    assert told[1] == f"{data.train.steps():,}"
    assert told[2] == f"{3 * data.train.steps():,}"
