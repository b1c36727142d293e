"""Recipes with teachers, run: from a bundle, interrupted and taken up, and on two devices."""

import shutil
from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.at_work import Moment
from tests.unit.runtime.run.test_resuming import assert_same

TEACHER = """
model conv(8) -> conv(16, stride=2) -> global_pool() -> linear(classes)
data digits() { split train=160 samples, val=40 samples, test=40 samples }
train batch=16, epochs=1
"""
STUDENT = """
model conv(4) -> conv(8, stride=2) -> dropout(0.1) -> global_pool() -> linear(classes)
data digits() { eval resize(12); split train=160 samples, val=40 samples, test=40 samples }
phase "warm up", epochs=1 { mixup 0.2 }
phase "learn", epochs=2 {
    distill bundle("teacher.bundle"), weight=0.4, method=dkd
    distill before_phase("learn"), weight=0.1
    distill_features bundle("teacher.bundle"), method=hint
    ema 0.9
}
train batch=16
checkpoint every=4 steps
"""


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a student, beside the bundle of its teacher."""
    folder = tmp_path_factory.mktemp("taught")
    teacher = at_work.program(folder, TEACHER, "teacher")
    at_work.run(teacher, "--output", "teachers")
    shutil.copy(at_work.run_folder(teacher, "teachers") / "model.bundle", folder / "teacher.bundle")
    return at_work.program(folder, STUDENT)


def test_interrupted_it_resumes_with_the_same_bytes(student: Path) -> None:
    at_work.run(student, "--output", "whole")
    whole = at_work.run_folder(student, "whole")
    at_work.kill(student, "--output", "cut", at=Moment(step=27))  # the last save was after step 24
    cut = at_work.run_folder(student, "cut")
    assert torch.load(cut / "last.ckpt", weights_only=True)["batch"] == 4
    assert at_work.run(student, "--resume", str(cut)).epochs == ["learn 2/2"]
    assert_same(cut, whole)
    one, other = (torch.load(run / "last.ckpt", weights_only=True)["state"]["distill_features"] for run in (cut, whole))
    assert one.pop("teacher") == other.pop("teacher") == {}, "it did not change"
    assert one.keys() == other.keys() == {"0.weight", "0.bias"}
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_teacher_is_built_once_for_both_techniques(student: Path) -> None:
    text = student.read_text(encoding="utf-8")
    assert text.count(" = build_teacher()") == 1
    assert 'runtime.read_input_spec(model, "teacher.bundle")' in text


TWO_PROCESSES = """
from types import SimpleNamespace

import torch
from lightning.fabric import Fabric
from torch import nn

from leaven.techniques import DistillFeatures


def net(width):
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2))


def train(fabric):
    torch.manual_seed(fabric.global_rank)  # in the middle of a run, chance differs between processes
    data = SimpleNamespace(eval_transform=None, example=torch.zeros(1, 8, 8), classes=("a", "b"))
    module = net(3)
    features = DistillFeatures(model=module, fabric=fabric, data=data, teacher=net(5))
    optimizer = torch.optim.SGD([*module.parameters(), *features.parameters()], lr=0.1)
    model, optimizer = fabric.setup(module, optimizer)
    for _ in range(3):
        images = torch.randn(4, 1, 8, 8)
        outputs = model(images)
        fabric.backward(features.on_loss(outputs.sum(), images, outputs, torch.zeros(4)))
        features.on_gradients(module)
        optimizer.step()
        optimizer.zero_grad()
    mine = torch.cat([parameter.detach().flatten() for parameter in features.parameters()])
    of_all = fabric.all_gather(mine)
    if fabric.is_global_zero:
        print("alike" if torch.equal(of_all[0], of_all[1]) and of_all.isfinite().all() else "apart", flush=True)


if __name__ == "__main__":
    Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(train)
"""


def test_in_several_processes_what_is_learnt_stays_the_same(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(TWO_PROCESSES, encoding="utf-8")
    assert "alike" in at_work.run(file).said
