"""Features are found in any net, compared in every way, learnt from, and left behind when a phase ends."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torchvision.transforms import v2 as T

from leaven.catalog import own
from leaven.runtime.failures import Failure
from leaven.techniques import DistillFeatures
from leaven.techniques.distillation.distill_features import USUAL_WEIGHTS
from leaven.techniques.distillation.features import as_map, layers_of

METHODS = ["hint", "attention", "similarity", "relational", "contrastive"]


def stage(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU())


class Net(nn.Module):
    """Three stages, a pool and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.layer1 = stage(width, width)
        self.layer2 = stage(width, 2 * width)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, 3)

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.fc(self.pool(self.layer2(self.layer1(self.stem(images)))).flatten(1))
        return outputs


def data() -> Any:
    steps = T.Compose([T.ToDtype(torch.float32, scale=True), T.Normalize([0.5] * 3, [0.5] * 3)])
    return SimpleNamespace(
        eval_transform=steps, example=torch.zeros(3, 16, 16, dtype=torch.uint8), classes=("a", "b", "c")
    )


@pytest.fixture
def fabric() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def technique(fabric: Fabric, student: nn.Module, teacher: nn.Module, **more: Any) -> DistillFeatures:
    return DistillFeatures(model=student, fabric=fabric, data=data(), teacher=teacher, **more)


# -- which layers


def found(model: nn.Module, size: int = 32) -> dict[str, int]:
    return layers_of(model, torch.zeros(1, 3, size, size), None)


def test_stages_end_where_maps_become_smaller() -> None:
    assert found(Net(4)) == {"stem": 4, "layer1": 4, "layer2": 8}


def test_known_nets_have_the_stages_that_people_name() -> None:
    timm = pytest.importorskip("timm")
    assert list(found(timm.create_model("resnet10t"), 64)) == ["layer1", "layer2", "layer3", "layer4"]
    assert list(found(timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2))) == ["norm"]
    assert list(found(timm.create_model("mobilenetv3_small_050"), 64))[-1] == "conv_head"


def test_a_model_without_maps_gives_what_its_head_gets() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 5), nn.ReLU(), nn.Linear(5, 3))
    assert found(model, 4) == {"2": 5}


def test_looking_at_layers_leaves_no_trace() -> None:
    model = Net(4)
    before = deepcopy(model.state_dict())
    found(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 5, 4, 4), (2, 5, 4, 4)),
        ((2, 4, 4, 6), (2, 6, 4, 4)),  # channels last, as in Swin
        ((2, 16, 5), (2, 5, 4, 4)),  # tokens
        ((2, 17, 5), (2, 5, 4, 4)),  # with one for the class
        ((2, 12, 5), (2, 5, 1, 1)),  # not of a square picture
        ((2, 5), (2, 5, 1, 1)),
    ],
)
def test_all_features_become_maps(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert as_map(torch.zeros(shape, dtype=torch.bfloat16)).shape == expected
    assert as_map(torch.zeros(shape, dtype=torch.bfloat16)).dtype == torch.float32


def test_by_default_the_last_maps_are_compared_and_for_attention_every_stage(fabric: Fabric) -> None:
    assert technique(fabric, Net(4), Net(6)).student_taps.paths == ("layer2",)
    of_all = technique(fabric, Net(4), Net(6), method="attention")
    assert of_all.student_taps.paths == of_all.teacher_taps.paths == ("stem", "layer1", "layer2")


def test_layers_can_be_named(fabric: Fabric) -> None:
    named = technique(fabric, Net(4), Net(6), layers=["layer*"], teacher_layers=["stem", "layer1.2"])
    assert (named.student_taps.paths, named.teacher_taps.paths) == (("layer1", "layer2"), ("stem", "layer1.2"))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"layers": ["layer9"]}, "the Net has no layer called layer9"),
        ({"layers": ["layer1", "layer2"], "teacher_layers": ["layer1"]}, "2 layers of the student"),
    ],
)
def test_layers_that_do_not_fit_are_reported(fabric: Fabric, more: dict[str, Any], told: str) -> None:
    with pytest.raises(Failure, match=told):
        technique(fabric, Net(4), Net(6), **more)


# -- learning


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_each_way_draws_the_student_to_another_width_and_size(method: str, precision: Any) -> None:
    torch.manual_seed(0)
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    teacher = nn.Sequential(Net(6))
    student = Net(4)
    features = technique(fabric, student, teacher, method=method, weight=1.0, teacher_size=24)
    optimizer = torch.optim.Adam([*student.parameters(), *features.parameters()], lr=0.01)
    model, optimizer = fabric.setup(student, optimizer)
    images = torch.randn(8, 3, 16, 16)
    losses = []
    for _ in range(12):
        outputs = model(images)
        loss = features.on_loss(outputs.sum() * 0, images, outputs, torch.zeros(8))
        fabric.backward(loss)
        features.on_gradients(student)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_the_usual_weight_depends_on_the_way(fabric: Fabric) -> None:
    assert [technique(fabric, Net(4), Net(4), method=method).weight for method in METHODS] == [100, 1000, 3000, 25, 0.8]


def test_what_is_learnt_is_saved_and_taken_up(fabric: Fabric) -> None:
    one, other = (technique(fabric, Net(4), Net(6)) for _ in range(2))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))
    other.load_state_dict(one.state_dict())
    assert torch.equal(next(one.parameters()), next(other.parameters()))


def test_copies_of_the_student_and_evaluation_are_not_listened_to(fabric: Fabric) -> None:
    student, images = Net(4), torch.randn(2, 3, 16, 16)
    features = technique(fabric, student, Net(6))
    student(images)
    average = deepcopy(student)  # with features at hand, which can't be copied
    features.student_taps.empty()
    average(images)
    with torch.no_grad():
        student(images)
    with pytest.raises(Failure, match="layer2 had no part in the last batch"):
        features.student_taps.features()


def test_at_the_end_the_models_are_as_they_were(fabric: Fabric) -> None:
    student, teacher = Net(4), Net(6)
    features = technique(fabric, student, teacher)
    features.at_end(student)
    assert not any(module._forward_hooks for model in (student, teacher) for module in model.modules())


def test_programs_show_the_usual_weight_of_a_method() -> None:
    card = own.read("technique", "distill_features")
    assert card is not None
    weight = card.parameter("weight")
    assert weight is not None
    assert dict(weight.defaults) == USUAL_WEIGHTS
