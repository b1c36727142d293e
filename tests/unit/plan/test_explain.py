"""What `leaven plan` prints."""

from pathlib import Path

import leaven
from leaven.plan.explain import explain
from leaven.program.emit import emit

SMALLER = Path(__file__).parents[3] / "examples/smaller.leaven"


def test_a_phase_without_training_names_no_loss_or_optimizer() -> None:
    """Nothing uses them: the phase only changes the model."""
    told = explain(leaven.make_plan(SMALLER))
    shrink = told.partition('phase "shrink"')[2].partition('phase "recover"')[0]
    assert "prune(" in shrink
    assert not any(word in shrink for word in ("loss", "optimizer", "schedule"))


def test_after_pruning_no_parameters_are_counted() -> None:
    """How many are left is known only when the program runs; and adapters are trained, whatever is frozen."""
    plan = leaven.make_plan(SMALLER)
    recover = explain(plan).partition('phase "recover"')[2]
    assert "frozen: all but classifier and the adapters " in recover
    assert "parameters trainable" not in recover
    assert "parameters trainable" not in emit(plan)
