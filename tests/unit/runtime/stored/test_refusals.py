"""Where stored outputs might not be what the model would compute, the model runs as it is."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.unit.runtime.stored.test_keys import net, photos, prepared, store
from torch import Tensor, nn

import leaven
from leaven import runtime
from leaven.cache.store import Store
from leaven.language.source import Source
from leaven.runtime.failures import Failure
from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.stored.batch import StoredBatch
from leaven.runtime.trials.group import Group

__all__ = ["photos", "store"]  # fixtures


def begun(phase: runtime.Phase, model: nn.Module) -> nn.Module:
    optimizer = torch.optim.SGD(runtime.trainable(phase.model), lr=0.1)
    return phase.setup(model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer))[0]


def test_a_resumed_run_uses_the_weights_that_it_saved(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phase, _, rest, features = prepared(photos)
    begun(phase, rest)
    phase.checkpoint.save()
    other = net()
    nn.init.constant_(other.get_parameter("0.weight"), 0.5)  # as if its file had been replaced
    folder = phase.run.folder.path
    del phase, features  # which hold the folder
    gc.collect()
    monkeypatch.setattr(sys, "argv", ["program.py", "--resume", str(folder)])
    _, data, _, features = prepared(photos, other)
    images, _ = next(data.train.batches(0))
    kept, _ = next(features.train.batches(0))
    assert torch.equal(net()[:4](images), kept.outputs["model"][0])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("unfreeze", "because they are trainable now"),
        ("write", "because their weights have changed"),
        ("setting", "because 2.output_size has changed"),
        ("data", ""),
    ],
)
def test_layers_that_are_changed_run_again(
    change: str, told: str, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phase, data, rest, features = prepared(photos)
    placed = begun(phase, rest)
    kinds = []
    for _ in phase.epochs():
        kinds.append({type(inputs) for inputs, _ in phase.batches(features.train)})
        weight = phase.model.get_parameter("0.weight")
        with torch.no_grad():
            if change == "unfreeze":
                weight.requires_grad_(True)
            elif change == "write":
                weight.mul_(0.5)
            elif change == "setting":
                phase.model.get_submodule("2").output_size = (1, 1)
            else:
                weight.copy_(weight.clone())  # nothing has changed
        phase.end_epoch({"val.loss": 1.0})
    assert Tensor not in kinds[0]
    assert kinds[1] == (kinds[0] if change == "data" else {Tensor})
    said = capsys.readouterr().out
    assert told in said
    assert ("because" in said) == bool(told)
    images, batch = (next(each.val.batches(0))[0] for each in (data, features))
    assert type(batch) is (StoredBatch if change == "data" else Tensor)
    placed.eval()
    assert torch.equal(placed(batch), phase.model(images)), "both continue from what there is"


def test_trials_that_train_together_do_not_write_to_the_frozen_weights_that_they_share(photos: Path) -> None:
    def body() -> None:
        phase, _, rest, features = prepared(photos)
        begun(phase, rest)
        for _ in phase.epochs():
            list(phase.batches(features.train))
            with torch.no_grad():
                phase.model.get_parameter("0.weight").mul_(0.5)
            phase.end_epoch({"val.loss": 1.0})

    group = Group(lambda _waiting: None, StopSignal())
    group.run({"lr=0.1": body})
    (trial,) = group.trials
    assert isinstance(trial.problem, Failure)
    assert "writes to the weights of frozen layers" in trial.problem.headline


class Normed(nn.Module):
    """Divides by the root of a buffer, which training changes."""

    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.register_buffer("spread", torch.ones(4))
        self.head = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.conv(images).mean((2, 3)) / self.spread.sqrt())


def test_what_is_computed_from_a_buffer_is_no_constant(photos: Path) -> None:
    phase, data, rest, features = prepared(photos, Normed(), all_but="head")
    phase.model.get_buffer("spread").mul_(4)
    images, _ = next(data.val.batches(0))
    stored, _ = next(features.val.batches(0))
    phase.model.eval()
    assert not isinstance(stored, Tensor)
    assert torch.equal(phase.model(images), rest(stored))


class Precise(nn.Module):
    """Turns mixed precision off, which tracing does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.inner = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            features = self.inner(self.conv(images.float()).mean((2, 3)))
        return self.head(features)


def test_a_model_that_turns_mixed_precision_off_runs_as_it_is(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, data, _, features = prepared(photos, Precise(), all_but="head", precision="bf16-mixed")
    assert features is data
    assert "do not compute what the whole does" in capsys.readouterr().out


def test_files_that_cant_be_read_are_not_stored_in_the_place_of_others(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        (photos / "val" / "ant" / f"{number}.png").write_bytes(b"no image")
    _, data, _, features = prepared(photos, on_bad_file="skip")
    assert features is data
    assert "can't be read" in capsys.readouterr().out
    assert [len(targets) for _, targets in features.val.batches(0)] == [4]


def test_a_split_without_images_needs_no_outputs(photos: Path) -> None:
    _, data, _, features = prepared(photos, shares={"val": 0})
    assert len(features.val) == 0
    assert features.train is not data.train


class Brightest(nn.Module):
    """Scales a whole batch by its brightest image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.conv(images / images.amax()).mean((2, 3)))


@pytest.mark.parametrize("place", range(8))
def test_images_that_change_the_outputs_for_others_are_noticed_wherever_they_are(place: int, photos: Path) -> None:
    for number, file in enumerate(sorted((photos / "train").glob("*/*.png"))):
        pixels = np.full((16, 16, 3), 250 if number == place else 100, dtype=np.uint8)
        pixels[number, number] = 90
        Image.fromarray(pixels).save(file)
    _, data, _, features = prepared(photos, Brightest(), all_but="head")
    assert features is data


def _hooked() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    model[1].register_forward_hook(_doubled)
    return model


def _doubled(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
    return output * 2


def test_a_function_of_yours_on_a_layer_of_a_library_is_your_own_code(photos: Path, store: Store) -> None:
    _, data, _, features = prepared(photos, _hooked())
    assert features.train is not data.train
    assert store.entries() == []


def test_hooks_of_the_whole_model_would_not_run(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = net()
    model.register_forward_hook(lambda _module, _inputs, _output: None)
    _, data, _, features = prepared(photos, model)
    assert features is data
    assert "because Sequential has hooks, which would not run" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="files that are used can't be removed there")
def test_outputs_that_are_not_kept_leave_nothing_on_the_disk(photos: Path, store: Store) -> None:
    features = prepared(photos, Plain(), all_but="head").features
    kept, _ = next(features.train.batches(0))
    assert kept.outputs["model"][0].shape == (4, 4)
    assert store.entries() == []


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.conv(images).mean((2, 3)))


RECIPE = "model resnet18()\ndata digits()\nfreeze all - head\n"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("train epochs=3, compile=true", "the model is compiled, which changes the last digits of its outputs"),
        ("train epochs=3", "they give the same outputs in every epoch"),
        (
            "train epochs=3\nfeatures views=3\nchange data { train rgb() -> horizontal_flip() }",
            "3 views are not fewer than the epochs",
        ),
    ],
)
def test_the_plan_says_why(written: str, reason: str) -> None:
    plan = leaven.make_plan(Source("a.leaven", f"{RECIPE}{written}\n"))
    assert reason in [choice.reason for choice in plan.choices]


def test_user_code_that_acts_after_an_epoch_may_change_frozen_layers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def note(phase, model):\n    pass\n")
    recipe = tmp_path / "a.leaven"
    recipe.write_text(f'import "mine.py" as mine\n{RECIPE}train epochs=3\noverride after_epoch, mine.note\n')
    reasons = [choice.reason for choice in leaven.make_plan(recipe).choices]
    assert "after_epoch is your own code, which may use images or change frozen layers" in reasons
