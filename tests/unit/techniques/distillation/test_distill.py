"""A teacher is frozen, gets inputs as it was trained on, runs once per batch, and has its share of the loss."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.runtime.failures import Failure
from leaven.tasks.classification import Classes
from leaven.techniques import Distill, DistillFeatures
from leaven.techniques.distillation.losses import kd_loss
from leaven.techniques.distillation.teacher import Teacher

CLASSES = ("a", "b", "c")
PARTS = [
    ("Conv", {"in_channels": 3, "channels": 4}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 4, "features": 3}),
]


def net(channels: int = 3, width: int = 4) -> nn.Sequential:
    features = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(width, 3))


class Noting(nn.Module):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 3)
        self.shown: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.shown.append(images)
        outputs: Tensor = self.head(images.mean(dim=(1, 2, 3))[:, None])
        return outputs


def data(mean: float = 0.5, std: float = 0.5, channels: int = 3, classes: tuple[str, ...] = CLASSES) -> Any:
    steps = T.Compose([T.ToDtype(torch.float32, scale=True), T.Normalize([mean] * channels, [std] * channels)])
    example = torch.zeros(channels, 8, 8, dtype=torch.uint8)
    return SimpleNamespace(eval_transform=steps, example=example, classes=classes)


@pytest.fixture
def fabric() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def batch(count: int = 6, channels: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(count, channels, 8, 8), torch.arange(count) % 3


def taught(fabric: Fabric, teacher: nn.Module, **more: Any) -> Distill:
    return Distill(fabric=fabric, data=data(), criterion=nn.CrossEntropyLoss(), teacher=teacher, **more)


def test_the_teacher_never_changes(fabric: Fabric) -> None:
    teacher, student = net(), net()
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    distill = taught(fabric, teacher)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(3):
        images, labels = batch()
        outputs = student(images)
        distill.on_loss(F.cross_entropy(outputs, labels), images, outputs, labels).backward()
        optimizer.step()
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert not any(module.training for module in teacher.modules())


def test_teacher_and_labels_share_the_loss(fabric: Fabric) -> None:
    teacher, (images, labels), outputs = net(), batch(), torch.randn(6, 3)
    loss = F.cross_entropy(outputs, labels)
    found = taught(fabric, teacher, temperature=2.0, weight=0.3).on_loss(loss, images, outputs, labels)
    assert found.item() == pytest.approx((0.7 * loss + 0.3 * kd_loss(outputs, teacher(images), 2.0)).item(), rel=1e-5)


def test_several_teachers_leave_the_rest_to_the_labels_in_any_order(fabric: Fabric) -> None:
    (images, labels), outputs = batch(), torch.randn(6, 3)
    teachers = [net(), net()]
    loss = F.cross_entropy(outputs, labels)
    techniques = [taught(fabric, teacher, weight=w) for teacher, w in zip(teachers, (0.5, 0.2), strict=True)]
    expected = 0.3 * loss + sum(
        w * kd_loss(outputs, teacher(images), 4.0) for teacher, w in zip(teachers, (0.5, 0.2), strict=True)
    )
    for order in (techniques, techniques[::-1]):
        found = loss
        for technique in order:
            found = technique.on_loss(found, images, outputs, labels)
        assert found.item() == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("method", ["kd", "dkd", "dist"])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_each_way_draws_the_student_to_the_teacher(fabric: Fabric, method: Any, is_mixed: bool) -> None:
    torch.manual_seed(0)
    teacher, student, (images, labels) = net(), net().eval(), batch()
    distill = taught(fabric, teacher, method=method, weight=1.0)
    targets = F.one_hot(labels, 3).float() * 0.8 + 0.2 / 3 if is_mixed else labels
    optimizer = torch.optim.Adam(student.parameters(), lr=0.02)

    def distance() -> Tensor:
        outputs = student(images)
        return distill.on_loss(F.cross_entropy(outputs, targets), images, outputs, targets)

    before = distance().item()
    for _ in range(20):
        optimizer.zero_grad()
        distance().backward()
        optimizer.step()
    assert distance().item() < before


def test_a_teacher_of_other_outputs_is_reported(fabric: Fabric) -> None:
    (images, labels), outputs = batch(), torch.randn(6, 7)
    with pytest.raises(Failure, match="the teacher has 3 outputs, but the student has 7"):
        taught(fabric, net()).on_loss(outputs.sum(), images, outputs, labels)


def test_a_teacher_is_asked_once_for_a_batch(fabric: Fabric) -> None:
    teacher, student = net(), net()
    calls: list[int] = []
    teacher.register_forward_hook(lambda *_: calls.append(1))
    outputs_too = taught(fabric, teacher)
    features = DistillFeatures(model=student, fabric=fabric, data=data(), teacher=teacher)
    calls.clear()
    for number in (1, 2):
        images, labels = batch()
        outputs = student(images)
        loss = features.on_loss(outputs.sum(), images, outputs, labels)
        outputs_too.on_loss(loss, images, outputs, labels)
        assert len(calls) == number


# -- how the teacher sees


def test_a_teacher_sees_its_own_normalisation_and_size(fabric: Fabric) -> None:
    teacher = Noting()
    runtime.set_input_spec(teacher, size=(16, 12), mean=[0.4, 0.5, 0.6], std=[0.2, 0.25, 0.5])
    raw = torch.rand(2, 3, 8, 8)
    Teacher(teacher, fabric, data(mean=0.1, std=0.3))((raw - 0.1) / 0.3)
    resized = F.interpolate(raw, (16, 12), mode="bilinear", antialias=True)
    expected = T.Normalize([0.4, 0.5, 0.6], [0.2, 0.25, 0.5])(resized)
    assert torch.allclose(teacher.shown[-1], expected, atol=1e-5)


def test_an_unknown_teacher_sees_what_the_student_sees(fabric: Fabric) -> None:
    teacher, (images, _) = Noting(), batch()
    Teacher(teacher, fabric, data())(images)
    assert teacher.shown[-1] is images


def test_the_recipe_can_say_the_teachers_size(fabric: Fabric) -> None:
    teacher, (images, _) = Noting(), batch()
    runtime.set_input_spec(teacher, size=(16, 16), mean=[0.5] * 3, std=[0.5] * 3)
    Teacher(teacher, fabric, data(), size=4)(images)
    assert teacher.shown[-1].shape[-2:] == (4, 4)


def test_grey_pictures_are_shown_in_three_channels(fabric: Fabric) -> None:
    teacher, (images, _) = Noting(), batch(channels=1)
    runtime.set_input_spec(teacher, size=(8, 8), mean=[0.5] * 3, std=[0.5] * 3)
    Teacher(teacher, fabric, data(channels=1))(images)
    assert torch.equal(teacher.shown[-1], images.expand(-1, 3, -1, -1))


def saved(folder: Path, classes: tuple[str, ...] = CLASSES) -> Path:
    steps = T.Compose(
        [
            T.Resize(12),
            T.CenterCrop(12),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.2] * 3, [0.1] * 3),
        ]
    )
    built_by = bundle.Components(PARTS)
    model = built_by.build(None)  # type: ignore[arg-type]
    return bundle.save(folder / "t.bundle", model, built_by=built_by, preprocess=steps, target=Classes(classes))


def test_a_bundle_tells_how_its_model_sees(fabric: Fabric, tmp_path: Path) -> None:
    model, teacher = bundle.load_model(saved(tmp_path)), Noting()
    runtime.read_input_spec(teacher, tmp_path / "t.bundle")
    Teacher(teacher, fabric, data(mean=0.5, std=0.5))(torch.zeros(1, 3, 8, 8))  # grey: 0.5
    assert teacher.shown[-1].shape == (1, 3, 12, 12)
    assert torch.allclose(teacher.shown[-1], torch.tensor((0.5 - 0.2) / 0.1), atol=1e-5)
    assert model(teacher.shown[-1]).shape == (1, 3)


def test_a_bundle_of_other_classes_does_not_teach_outputs(fabric: Fabric, tmp_path: Path) -> None:
    teacher = bundle.load_model(saved(tmp_path, ("a", "c", "b")))
    runtime.read_input_spec(teacher, tmp_path / "t.bundle")
    with pytest.raises(Failure, match="class 2 of the teacher is c, but class 2 of the data is b"):
        taught(fabric, teacher)
    DistillFeatures(model=net(), fabric=fabric, data=data(), teacher=teacher)


def test_weights_that_are_no_bundle_tell_nothing(fabric: Fabric, tmp_path: Path) -> None:
    torch.save(net().state_dict(), tmp_path / "net.pth")
    teacher = Noting()
    runtime.read_input_spec(teacher, tmp_path / "net.pth")
    images, _ = batch()
    Teacher(teacher, fabric, data())(images)
    assert teacher.shown[-1] is images
