"""What `leaven plan` prints."""

import re
from pathlib import Path

import leaven
from leaven.planning.explain import explain
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
    assert "parameters trainable" not in emit(plan).partition("def train_recover")[2]


def test_a_model_of_which_nothing_is_trained_is_frozen_as_a_whole(tmp_path: Path) -> None:
    recipe = tmp_path / "as_it_is.leaven"
    recipe.write_text('model resnet18()\ndata digits()\nphase "as it is", epochs=0 { freeze all }\n')
    assert re.search(r"frozen: all; 0 of [\d,]+ parameters trainable", explain(leaven.make_plan(recipe)))


def test_the_frozen_layers_of_a_solved_head_run_once(tmp_path: Path) -> None:
    """Stored or not: a solver gets all of their outputs at once."""
    (tmp_path / "texts.csv").write_text("text,label\n" + "fine,good\nawful,bad\n" * 10)
    recipe = tmp_path / "solved.leaven"
    data = 'data csv("texts.csv", text="text", label="label")'
    recipe.write_text(f"model minilm(pretrained=true)\n{data}\nlinear_probe solver=lbfgs\n")
    assert "frozen layers: run once per text; their outputs are not stored" in explain(leaven.make_plan(recipe))


def test_in_a_narrow_terminal_reasons_are_wrapped_and_nothing_is_lost() -> None:
    plan = leaven.make_plan(SMALLER)
    plain, fitted = explain(plan), explain(plan, width=60)
    assert max(map(len, fitted.splitlines())) < 60
    assert sorted(word for word in fitted.split() if word != "#") == sorted(
        word for word in plain.split() if word != "#"
    )


def test_colours_change_nothing_else() -> None:
    plan = leaven.make_plan(SMALLER)
    colored = explain(plan, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == explain(plan)
    assert '\x1b[1mphase "learn", 3 epochs' in colored
