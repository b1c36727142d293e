"""What `leaven plan` prints."""

from pathlib import Path

import leaven
from leaven.plan.explain import explain

SMALLER = Path(__file__).parents[3] / "examples/smaller.leaven"


def test_a_phase_without_training_names_no_loss_or_optimizer() -> None:
    """Nothing uses them: the phase only changes the model."""
    told = explain(leaven.make_plan(SMALLER))
    shrink = told.partition('phase "shrink"')[2].partition('phase "recover"')[0]
    assert "prune(" in shrink
    assert not any(word in shrink for word in ("loss", "optimizer", "schedule"))
