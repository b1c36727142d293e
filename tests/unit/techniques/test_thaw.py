"""Layers that are unfrozen in the course of a phase: what is trainable when, and that what waits is frozen in full."""

from pathlib import Path

import torch
from tests import at_work
from tests.unit.techniques.at_hand import is_same, net, random_batch, state_of
from torch import nn
from torch.nn import functional as F

import leaven
from leaven.language.source import Source
from leaven.runtime import freeze, unfreeze_by_epoch
from leaven.runtime.model.freezing import set_training

LATER = [(1, ["3"]), (2, ["0", "1"])]


def moving(module: nn.Module) -> set[str]:
    return {name.partition(".")[0] for name, weight in module.named_parameters() if weight.requires_grad}


def frozen_in_each_epoch(statement: str) -> list[set[str]]:
    model = "model conv(4) -> res_block(8) -> res_block(8) -> global_pool() -> linear(classes)"
    checked = leaven.check(Source("recipe.leaven", f"{model}\ndata digits()\n{statement}\ntrain epochs=4\n"))
    assert checked.recipe is not None, checked.diagnostics
    freezing = checked.recipe.phases[0].freezing
    assert freezing is not None
    return [{name.partition(".")[0] for name in at_work.frozen_in(freezing, epoch)} for epoch in range(4)]


def test_thaw_unfreezes_the_stages_from_the_head_down() -> None:
    assert frozen_in_each_epoch("thaw") == [{"0", "1", "2"}, {"0", "1"}, {"0"}, set()]
    assert frozen_in_each_epoch("thaw every=2 epochs") == [{"0", "1", "2"}] * 2 + [{"0", "1"}] * 2


def test_lp_ft_trains_the_head_alone_first() -> None:
    assert frozen_in_each_epoch("lp_ft 2") == [{"0", "1", "2"}] * 2 + [set()] * 2


def test_what_freeze_holds_is_never_unfrozen() -> None:
    assert frozen_in_each_epoch("freeze stem; thaw") == [{"0", "1", "2"}, {"0", "1"}, {"0"}, {"0"}]


def test_a_resumed_run_finds_the_layers_as_they_were() -> None:
    module = net()
    unfreeze_by_epoch(module, 1, *LATER)
    assert moving(module) == {"3", "6"}
    assert not module[1].training


def test_what_waits_is_frozen_to_the_last_byte_although_the_optimizer_holds_it() -> None:
    module = net()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5)
    unfreeze_by_epoch(module, 0, *LATER)
    before = state_of(module)
    images, labels = random_batch()
    set_training(module)
    for _ in range(3):
        F.cross_entropy(module(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    after = state_of(module)
    waiting = [name for name in before if not name.startswith("6")]
    assert is_same({name: before[name] for name in waiting}, {name: after[name] for name in waiting})
    assert not torch.equal(before["6.weight"], after["6.weight"])


def test_what_is_frozen_for_good_never_joins() -> None:
    module = net()
    freeze(module, only=["0"])
    for epoch, expected in enumerate([{"1", "6"}, {"1", "3", "6"}]):
        unfreeze_by_epoch(module, epoch, (1, ["3"]))
        assert moving(module) == expected


def test_what_is_named_twice_joins_at_the_first() -> None:
    module = net()
    unfreeze_by_epoch(module, 1, (1, ["3"]), (2, ["0", "3"]))
    assert moving(module) == {"1", "3", "6"}


RECIPE = """
model conv(8) -> conv(16, stride=2) -> dropout(0.2) -> global_pool() -> linear(classes)
data digits() {{ split train=80 samples, val=20 samples, test=20 samples }}
optimizer adamw(lr=0.01)
phase "one", epochs=3 {{ {first} }}
phase "two", epochs=1 {{}}
train batch=4
"""


def test_unfreeze_in_the_middle_of_a_phase_moves_what_it_names_and_not_before(tmp_path: Path) -> None:
    first = 'freeze all - head; unfreeze "1", at=2 epochs'
    text = RECIPE.format(first=first).replace("train batch", "checkpoint keep=all\ntrain batch")
    file = at_work.program(tmp_path, text)
    at_work.run(file, "--output", "out")
    folder = at_work.run_folder(file, "out")
    epochs = [torch.load(path, weights_only=True)["model"] for path in sorted(folder.glob("phase1-epoch*"))]
    assert len(epochs) == 3, sorted(path.name for path in folder.iterdir())
    assert torch.equal(epochs[0]["1.conv.weight"], epochs[1]["1.conv.weight"])
    assert not torch.equal(epochs[1]["1.conv.weight"], epochs[2]["1.conv.weight"])
    assert torch.equal(epochs[0]["0.conv.weight"], epochs[2]["0.conv.weight"])
