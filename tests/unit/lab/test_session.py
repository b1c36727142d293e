"""A recipe opened in Python: the same objects and the same numbers as the program's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests import at_work

import leaven
from leaven.lab.session import Session

RECIPE = """
model conv(8) -> conv(16, stride=2) -> dropout(0.2) -> global_pool() -> linear(classes)
data digits() { train random_crop(8, padding=1); split train=40 samples, val=20 samples, test=20 samples }
optimizer sgd(lr=0.1)
phase "one", epochs=1 { freeze "0" }
phase "two", epochs=2
train batch=4
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    file = tmp_path / "recipe.leaven"
    file.write_text(RECIPE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the programs of the tests have
    with leaven.open(file) as opened:
        yield opened
    torch.set_num_threads(threads)


def test_one_can_look_before_anything_is_trained(session: Session) -> None:
    images, labels = session.batch()
    assert images.shape == (4, 1, 8, 8)
    assert labels.shape == (4,)
    assert session.evaluate().keys() == {"val.accuracy"}
    assert "40 train, 20 val, 20 test" in session.summary()
    assert session.optimizer is None


def test_a_step_moves_what_is_not_frozen(session: Session) -> None:
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    assert session.step() is not None
    after = session.model.state_dict()
    assert torch.equal(before["0.conv.weight"], after["0.conv.weight"])
    assert torch.equal(before["0.norm.running_mean"], after["0.norm.running_mean"])
    assert not torch.equal(before["1.conv.weight"], after["1.conv.weight"])
    assert "frozen" in session.summary()


def test_a_batch_is_what_the_next_step_trains_on(session: Session) -> None:
    session.step(3)
    seen: list[torch.Tensor] = []
    session.model.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
    images, _ = session.batch()
    session.step()
    assert torch.equal(seen[0], images)


def test_every_step_has_a_loss(session: Session) -> None:
    assert all(session.step() is not None for _ in range(30)), "also the last one of an epoch"
    assert session.step() is None


def test_step_by_step_it_ends_as_the_program_does(session: Session, tmp_path: Path) -> None:
    while session.step(7) is not None:
        pass
    file = at_work.program(tmp_path, RECIPE, "program")
    at_work.run(file, "--output", "whole")
    saved = torch.load(at_work.run_folder(file, "whole") / "last.ckpt", weights_only=True)["state"]["model"]
    ours = session.model.state_dict()
    assert all(torch.equal(ours[name], saved[name]) for name in saved)
    assert session.step() is None, "there is nothing left to do"


def test_what_goes_wrong_is_raised_where_the_step_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def train_step(model, batch, criterion):\n    raise ZeroDivisionError('mine')\n")
    file = tmp_path / "recipe.leaven"
    file.write_text('import "mine.py" as mine\n' + RECIPE + "override train_step, mine.train_step\n")
    with leaven.open(file) as session, pytest.raises(ZeroDivisionError, match="mine"):
        session.step()


def test_a_recipe_with_mistakes_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "recipe.leaven"
    file.write_text(RECIPE.replace("sgd", "sdg"))
    with pytest.raises(leaven.RecipeError, match="sdg"):
        leaven.open(file)
