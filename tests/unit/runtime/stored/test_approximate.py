"""Frozen layers that run in a faster way give nearly the same outputs, which no exact run ever uses."""

from pathlib import Path

import pytest
import timm
import torch
from tests import at_work
from torch import fx, nn

from leaven.runtime import freeze
from leaven.runtime.model.graph import find_cut
from leaven.runtime.stored.approximate import TOLERANCE, fold_norms, ways

RECIPE = """
model  conv(8) -> conv(16, stride=2) -> global_pool() -> dropout(0.2) -> linear(classes)
data   digits() { split train=90 samples, val=40 samples, test=40 samples }
freeze "0" + "1"
train  epochs=2, exact="""


def before(model: nn.Module) -> fx.GraphModule:
    cut = find_cut(model)
    assert cut is not None
    return cut.before(model)


def frozen_part(name: str, head: str) -> fx.GraphModule:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # as if it were trained
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    freeze(model, all_but=[head])
    return before(model)


@pytest.mark.parametrize(("name", "head"), [("resnet18", "fc"), ("tf_efficientnet_lite0", "classifier")])
def test_folded_norms_and_channels_last_change_only_the_last_digits(name: str, head: str) -> None:
    part = frozen_part(name, head)
    folded = fold_norms(part)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    images = torch.randn(4, 3, 64, 64)
    with torch.no_grad():
        (exact,) = part(images)
        for way, run in ways(part, images).items():
            (found,) = run(images)
            assert found.dtype == exact.dtype
            difference = ((found - exact).norm(dim=1) / exact.norm(dim=1)).max()
            assert difference < (2 * TOLERANCE if "bf16" in way else 1e-4), way
    assert any(isinstance(module, nn.BatchNorm2d) for module in part.modules()), "the model itself is unchanged"


def test_norms_that_do_not_follow_a_convolution_alone_are_left() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features = self.conv(images)
            return self.head((self.norm(features) + features).mean((2, 3)))

    model = Net()
    freeze(model, all_but=["head"])
    part = before(model)
    assert fold_norms(part) is part


def losses(file: Path, output: str) -> list[float]:
    table = (at_work.run_folder(file, output) / "metrics.csv").read_text().splitlines()
    at = table[0].split(",").index("val.loss")
    return [float(line.split(",")[at]) for line in table[1:]]


def test_exact_and_approximate_outputs_never_mix(tmp_path: Path) -> None:
    about, exact = (
        at_work.program(tmp_path, f"{RECIPE}false", "about"),
        at_work.program(tmp_path, f"{RECIPE}true", "exact"),
    )
    assert "phase.frozen_once(model, data, exact=False)" in about.read_text()
    computed, choice = "ran the frozen layers once for 130 samples", "train: the frozen layers run "
    said = [at_work.run(file, "--output", output).said for file, output in ((about, "1"), (exact, "2"), (about, "3"))]
    assert [computed in each for each in said] == [True, True, False]
    assert [choice in each for each in said] == [True, False, True]
    assert losses(about, "1") == losses(about, "3")
    assert losses(about, "1") == pytest.approx(losses(exact, "2"), rel=TOLERANCE)
