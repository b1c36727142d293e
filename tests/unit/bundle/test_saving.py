"""What is loaded from a bundle is the model that was saved, however it was built."""

import contextlib
import functools
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from PIL import Image
from tests.unit.bundle.conftest import PARTS, TARGET, colour_net, colour_steps
from torch import Tensor, nn
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.components.res_block import ResBlock
from leaven.runtime.failures import Failure
from leaven.runtime.model.weights import load_weights
from leaven.runtime.user_code import import_file
from leaven.tasks.classification import Classes

STEPS = T.Compose(
    [T.Resize(40), T.CenterCrop(32), T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Normalize([0.5], [0.5])]
)


def shaken(model: nn.Module) -> nn.Module:
    """A model whose statistics and weights are not those of a new one."""
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.add_(torch.rand_like(value) * 0.1)
    return model


def same_steps(found: Any, expected: Any) -> bool:
    """Whether both make the same of pictures of several sizes; chance, if there is any, is the same."""
    for size in ((90, 70), (33, 61)):
        picture = Image.frombytes("RGB", size, random.Random(1).randbytes(3 * size[0] * size[1]))
        made = []
        for steps in (found, expected):
            torch.manual_seed(0)
            made.append(steps(picture))
        if not torch.equal(*made):
            return False
    return True


def timm_net() -> tuple[nn.Module, bundle.BuiltBy]:
    return timm.create_model("resnet10t", num_classes=3), bundle.Timm("resnet10t", num_classes=3)


def torchvision_net() -> tuple[nn.Module, bundle.BuiltBy]:
    model = torchvision.models.squeezenet1_1(num_classes=3)
    return model, bundle.Torchvision("squeezenet1_1", num_classes=3)


def components_net() -> tuple[nn.Module, bundle.BuiltBy]:
    model = nn.Sequential(Conv(3, 8), ResBlock(8, 12, stride=2), GlobalPool(), Linear(12, 3))
    parts = [
        ("Conv", {"in_channels": 3, "channels": 8}),
        ("ResBlock", {"in_channels": 8, "channels": 12, "stride": 2}),
        ("GlobalPool", {}),
        ("Linear", {"in_channels": 12, "features": 3}),
    ]
    return model, bundle.Components(parts)


@pytest.mark.parametrize("make", [timm_net, torchvision_net, components_net])
def test_a_loaded_model_has_the_outputs_of_the_saved_one(tmp_path: Path, make: Callable[[], Any]) -> None:
    model, built_by = make()
    shaken(model).eval()
    bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=STEPS, target=TARGET)
    loaded = bundle.load(tmp_path / "a.bundle")
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(loaded.model(images), model(images))
    assert not loaded.model.training
    assert same_steps(loaded.preprocess, STEPS)


def test_a_bundle_serves_as_weights_and_as_a_teacher(tmp_path: Path) -> None:
    model, built_by = components_net()
    file = bundle.save(tmp_path / "a.bundle", shaken(model), built_by=built_by, preprocess=STEPS, target=TARGET)
    other, _ = components_net()
    load_weights(other, file)
    teacher = bundle.load_model(file)
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)
        assert torch.equal(teacher.state_dict()[name], value)
    assert all(value.requires_grad for value in teacher.parameters())


class TestTheFile:
    def test_equal_models_make_equal_bytes(self, tmp_path: Path) -> None:
        files = []
        for folder in ("one", "two"):
            (tmp_path / folder).mkdir()
            files.append(tmp_path / folder / "a.bundle")
            built_by = bundle.Components(PARTS)
            bundle.save(files[-1], colour_net(), built_by=built_by, preprocess=colour_steps(), target=TARGET)
        assert files[0].read_bytes() == files[1].read_bytes()

    def test_it_holds_the_records_of_the_run_and_a_card(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        run.mkdir()
        for name in ("recipe.leaven", "lock.json", "program.py", "last.ckpt"):
            (run / name).write_text(f"# {name}")
        file = run / "model.bundle"
        bundle.save(
            file,
            colour_net(),
            built_by=bundle.Components(PARTS),
            preprocess=colour_steps(),
            target=TARGET,
            scores={"test.accuracy": 0.97},
            folder=run,
        )
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            assert archive.read("recipe.leaven") == b"# recipe.leaven"
        assert {"lock.json", "program.py"} <= set(names)
        assert "last.ckpt" not in names
        assert not any(name.endswith((".pkl", ".pt", ".pt2", ".pth")) for name in names)
        card = bundle.load(file).card
        assert 'leaven.load("model.bundle")' in card
        assert "red, green, blue" in card
        assert "0.9700" in card
        assert f"torch {torch.__version__.partition('+')[0]}" in card

    def test_nothing_of_the_example_but_its_form_is_in_it(self, tmp_path: Path) -> None:
        example = Image.frombytes("RGB", (40, 30), random.Random(0).randbytes(3600))
        files = []
        for picture in (example, Image.new("RGB", (40, 30))):
            files.append(tmp_path / "a.bundle")
            save = functools.partial(bundle.save, built_by=bundle.Components(PARTS), preprocess=colour_steps())
            save(files[-1], colour_net(), target=TARGET, example=picture)
            files[-1] = files[-1].rename(tmp_path / f"{len(files)}.bundle")
        assert files[0].read_bytes() == files[1].read_bytes()

    def test_shared_weights_are_written_in_full(self, tmp_path: Path) -> None:
        model = nn.Sequential(Linear(3, 3), Linear(3, 3))
        model[1].weight = model[0].weight
        parts = [("GlobalPool", {}), ("Linear", {"in_channels": 3, "features": 3})]
        whole = nn.Sequential(GlobalPool(), *model)
        built_by = bundle.Components([*parts, parts[1]])
        bundle.save(tmp_path / "a.bundle", whole, built_by=built_by, preprocess=colour_steps(), target=TARGET)
        loaded = bundle.load(tmp_path / "a.bundle").model.state_dict()
        assert torch.equal(loaded["1.weight"], loaded["2.weight"])

    def test_a_file_that_is_there_stays_when_a_save_fails(self, tmp_path: Path) -> None:
        file = tmp_path / "a.bundle"
        file.write_text("before")
        built_by = bundle.Timm("resnet10t", num_classes=3)
        with pytest.raises(Failure):
            bundle.save(file, colour_net(), built_by=built_by, preprocess=colour_steps(), target=TARGET)
        assert file.read_text() == "before"
        assert list(tmp_path.iterdir()) == [file]

    def test_a_folder_that_is_not_there_is_a_failure(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match=r"can't write a\.bundle"):
            bundle.save(
                tmp_path / "none" / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=colour_steps(),
                target=TARGET,
            )

    def test_what_would_be_refused_is_not_written(self, tmp_path: Path) -> None:
        (tmp_path / "program.py").write_bytes(b" " * (17 * 2**20))
        with pytest.raises(Failure, match=r"program\.py is larger than 16 MB"):
            bundle.save(
                tmp_path / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=colour_steps(),
                target=TARGET,
                folder=tmp_path,
            )


class TestTheModuleIsLeftAsItWas:
    def test_its_modes_and_the_state_of_chance(self, tmp_path: Path) -> None:
        model, built_by = components_net()
        model.train()
        model[1].eval()
        modes = [part.training for part in model.modules()]
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=STEPS, target=TARGET)
        assert torch.equal(torch.rand(2), expected)
        assert [part.training for part in model.modules()] == modes

    def test_loading_leaves_the_state_of_chance(self, colours_file: Path) -> None:
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        bundle.load(colours_file)
        assert torch.equal(torch.rand(2), expected)


class TestADescriptionThatIsWrong:
    def test_another_model_with_the_same_weights_is_refused(self, tmp_path: Path) -> None:
        model = nn.Sequential(Conv(3, 8), nn.Tanh(), GlobalPool(), Linear(8, 3))
        parts = [("Conv", {"in_channels": 3, "channels": 8}), ("Relu", {}), ("GlobalPool", {})]
        built_by = bundle.Components([*parts, ("Linear", {"in_channels": 8, "features": 3})])
        with pytest.raises(Failure, match="is not what `built_by` says"):
            bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=STEPS, target=TARGET)

    def test_weights_of_other_names_are_listed(self, tmp_path: Path) -> None:
        built_by = bundle.Components([*PARTS, ("Linear", {"in_channels": 3, "features": 3})])
        with pytest.raises(Failure, match=r"3\.weight is missing from the weights"):
            bundle.save(tmp_path / "a.bundle", colour_net(), built_by=built_by, preprocess=STEPS, target=TARGET)

    def test_the_classes_must_be_as_many_as_the_outputs(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="has 3 outputs, but the data has 2 names"):
            bundle.save(
                tmp_path / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=STEPS,
                target=Classes(("a", "b")),
            )

    def test_a_spoilt_model_is_not_saved(self, tmp_path: Path) -> None:
        model = colour_net()
        with torch.no_grad():
            next(model.parameters()).fill_(float("nan"))
        with pytest.raises(Failure, match="not finite"):
            bundle.save(
                tmp_path / "a.bundle", model, built_by=bundle.Components(PARTS), preprocess=STEPS, target=TARGET
            )

    @pytest.mark.parametrize(
        "built_by",
        [
            bundle.Timm("hf-hub:somebody/model"),
            bundle.Timm("local-dir:/tmp/model"),
            bundle.Timm("resnet10t", checkpoint_path="/tmp/x.pth"),
            bundle.Timm("resnet10t", pretrained_cfg="x"),
            bundle.Torchvision("raft_small"),
            bundle.Torchvision("resnet18", weights="DEFAULT"),
            bundle.Components([("os", {})]),
            bundle.Components([("Sequential", {})]),
            bundle.Components([("Tensor", {})]),
        ],
    )
    def test_only_what_is_listed_is_built(self, tmp_path: Path, built_by: bundle.BuiltBy) -> None:
        with pytest.raises(Failure, match=r"has no|is built without|there is no component"):
            bundle.save(tmp_path / "a.bundle", colour_net(), built_by=built_by, preprocess=STEPS, target=TARGET)

    def test_arguments_must_be_plain(self) -> None:
        with pytest.raises(Failure, match="not a plain value"):
            bundle.Timm("resnet10t", act_layer=nn.ReLU)


class TestWhatTheStepsTake:
    def test_a_grey_model_is_found_by_trying(self, tmp_path: Path) -> None:
        model = nn.Sequential(Conv(1, 4), GlobalPool(), Linear(4, 3))
        parts = [("Conv", {"in_channels": 1, "channels": 4}), ("GlobalPool", {})]
        built_by = bundle.Components([*parts, ("Linear", {"in_channels": 4, "features": 3})])
        bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=colour_steps(), target=TARGET)
        loaded = bundle.load(tmp_path / "a.bundle")
        assert loaded.prepare(Image.new("RGB", (50, 50), "red")).shape == (1, 16, 16)

    def test_steps_that_leave_the_size_need_an_example(self, tmp_path: Path) -> None:
        steps = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        parts = [("Flatten", {}), ("Linear", {"in_channels": 64, "features": 3})]
        save = functools.partial(bundle.save, built_by=bundle.Components(parts), preprocess=steps, target=TARGET)
        with pytest.raises(Failure) as caught:
            save(tmp_path / "a.bundle", model)
        assert "example=" in caught.value.help
        save(tmp_path / "a.bundle", model, example=Image.new("L", (8, 8)))
        loaded = bundle.load(tmp_path / "a.bundle")
        assert loaded(Image.new("L", (8, 8))).label in TARGET.names
        assert "resized to 8×8 pixels" in loaded.card

    def test_where_the_steps_leave_the_size_pictures_are_brought_to_that_of_training(self, tmp_path: Path) -> None:
        steps = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
        save = functools.partial(bundle.save, built_by=bundle.Components(PARTS), preprocess=steps, target=TARGET)
        save(tmp_path / "a.bundle", colour_net(), example=Image.new("RGB", (8, 6)))
        loaded = bundle.load(tmp_path / "a.bundle")
        assert loaded.prepare(Image.new("RGB", (200, 100), "red")).shape == (3, 6, 8)
        assert loaded([Image.new("RGB", (200, 100), "red"), Image.new("RGB", (8, 6), "blue")])[1].label == "blue"
        assert (
            loaded.evaluate([(Image.new("RGB", (9, 30), "red"), "red"), (Image.new("RGB", (5, 5)), "red")]).count == 2
        )

    def test_tensors_go_through_as_they_are(self, tmp_path: Path) -> None:
        save = functools.partial(bundle.save, built_by=bundle.Components(PARTS), preprocess=None, target=TARGET)
        save(tmp_path / "a.bundle", colour_net(), example=torch.zeros(3, 8, 8))
        loaded = bundle.load(tmp_path / "a.bundle")
        green = torch.zeros(3, 8, 8)
        green[1] = 5.0
        assert loaded(green).label == "green"
        assert loaded(Image.new("RGB", (9, 9), "blue")).label == "blue"


NET = """\
from torch import nn
from blocks import Pool

print("own code runs")

class Net(nn.Module):
    def __init__(self, width, classes=7):
        super().__init__()
        self.first = nn.Conv2d(3, width, 1)
        self.pool = Pool()
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(self.pool(self.first(images)))

def soft(image):
    return image.convert("RGB")

def darker(image, share):
    return image.point(lambda value: int(value * share))

class Mirror:
    def __init__(self, flips=True):
        self.flips = flips

    def __call__(self, image):
        return image.transpose(0) if self.flips else image
"""
BLOCKS = """\
from torch import nn

class Pool(nn.Module):
    def forward(self, images):
        return images.mean((2, 3))
"""


class TestCodeOfOnesOwn:
    @pytest.fixture
    def mine(self, tmp_path: Path) -> Any:
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "net.py").write_text(NET)
        (tmp_path / "src" / "blocks.py").write_text(BLOCKS)
        return import_file(str(tmp_path / "src" / "net.py"), "mine")

    def saved(self, tmp_path: Path, model: nn.Module, steps: Any, **built: Any) -> Path:
        built_by = bundle.Own(tmp_path / "src" / "net.py", "Net", {"width": 4}, **built)
        return bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=steps, target=TARGET)

    def model(self, mine: Any) -> nn.Module:
        model: nn.Module = mine.Net(4)
        model.head = nn.Linear(4, 3)
        return model

    def test_it_runs_only_if_trusted(self, tmp_path: Path, mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
        file = self.saved(tmp_path, self.model(mine), STEPS, head=("head", 3))
        for source in (tmp_path / "src").iterdir():
            if source.is_file():
                source.unlink()
        capsys.readouterr()
        with pytest.raises(Failure, match=r"needs code that comes with it \(code/0/net\.py\)") as caught:
            bundle.load(file)
        assert caught.value.headline.startswith(f"{file} needs code that comes with it (")
        assert "trust_code=True" in caught.value.help
        assert capsys.readouterr().out == ""
        loaded = bundle.load(file, trust_code=True)
        assert capsys.readouterr().out == "own code runs\n"
        assert loaded(Image.new("RGB", (40, 40))).label in TARGET.names
        assert "trust_code=True" in loaded.card

    def test_the_source_in_the_bundle_is_what_runs(self, tmp_path: Path, mine: Any) -> None:
        file = self.saved(tmp_path, self.model(mine), STEPS, head=("head", 3))
        (tmp_path / "src" / "net.py").write_text("raise RuntimeError")
        (tmp_path / "src" / "blocks.py").write_text("raise RuntimeError")
        assert type(bundle.load(file, trust_code=True).model).__name__ == "Net"

    def test_a_model_of_an_installed_module(self, tmp_path: Path) -> None:
        built_by = bundle.Own("torchvision.models", "squeezenet1_1", {"num_classes": 3})
        model = torchvision.models.squeezenet1_1(num_classes=3)
        file = bundle.save(tmp_path / "a.bundle", model, built_by=built_by, preprocess=STEPS, target=TARGET)
        with pytest.raises(Failure, match="needs code"):
            bundle.load(file)
        assert bundle.load(file, trust_code=True)

    def test_a_file_whose_name_is_no_word(self, tmp_path: Path, mine: Any) -> None:
        (tmp_path / "src" / "net.py").rename(tmp_path / "src" / "my net (2).py")
        built_by = bundle.Own(tmp_path / "src" / "my net (2).py", "Net", {"width": 4, "classes": 3})
        save = functools.partial(bundle.save, built_by=built_by, preprocess=STEPS, target=TARGET)
        assert bundle.load(save(tmp_path / "a.bundle", mine.Net(4, 3)), trust_code=True)

    def test_two_bundles_with_files_of_the_same_name_live_side_by_side(self, tmp_path: Path, mine: Any) -> None:
        first = self.saved(tmp_path, self.model(mine), STEPS, head=("head", 3)).rename(tmp_path / "first.bundle")
        (tmp_path / "src" / "blocks.py").write_text(BLOCKS.replace("mean((2, 3))", "amax((2, 3))"))
        other = import_file(str(tmp_path / "src" / "net.py"), "mine")
        model = self.model(other)
        model.pool.forward = lambda images: images.amax((2, 3))  # type: ignore[method-assign, union-attr, assignment]
        second = self.saved(tmp_path, model, STEPS, head=("head", 3))
        one, two = (bundle.load(file, trust_code=True).model for file in (first, second))
        images = torch.rand(1, 3, 5, 5)
        assert torch.equal(one.pool(images), images.mean((2, 3)))  # type: ignore[operator]
        assert torch.equal(two.pool(images), images.amax((2, 3)))  # type: ignore[operator]

    def test_steps_of_ones_own(self, tmp_path: Path, mine: Any) -> None:
        own = [mine.soft, functools.partial(mine.darker, share=0.5), mine.Mirror(flips=False), T.Lambda(mine.soft)]
        steps = T.Compose([*own, *colour_steps().transforms])
        save = functools.partial(bundle.save, built_by=bundle.Components(PARTS), target=TARGET)
        file = save(tmp_path / "a.bundle", colour_net(), preprocess=steps)
        with pytest.raises(Failure, match="needs code"):
            bundle.load(file)
        loaded = bundle.load(file, trust_code=True)
        picture = Image.new("RGB", (40, 40), (200, 100, 0))
        assert torch.equal(loaded.prepare(picture), Tensor(steps(picture)))

    def test_loading_and_exporting_leave_no_trace(self, tmp_path: Path, mine: Any) -> None:
        source = NET.replace("print(", "CALLS = []\n\n(").replace(
            "self.pool = Pool()", "self.pool, self.calls = Pool(), 0"
        )
        source = source.replace("return self.head", "self.calls += 1; CALLS.append(1); return self.head")
        source = source.replace("self.flips = flips", "self.flips, self.calls = flips, 0")
        source = source.replace("return image.transpose", "self.calls += 1; return image.transpose")
        (tmp_path / "src" / "net.py").write_text(source)
        blocks = BLOCKS.replace("class", "SEEN = {'calls': 0}\n\nclass").replace("return", "SEEN['calls'] += 1; return")
        (tmp_path / "src" / "blocks.py").write_text(blocks)
        counting = import_file(str(tmp_path / "src" / "net.py"), "mine")
        model = self.model(counting)
        steps = T.Compose([counting.Mirror(), *colour_steps().transforms])
        loaded = bundle.load(self.saved(tmp_path, model, steps, head=("head", 3)), trust_code=True)
        pool = type(loaded.model.pool)
        variables = type(loaded.model).forward.__globals__, pool.forward.__globals__
        assert (model.calls, counting.CALLS) == (0, [])
        assert (loaded.model.calls, variables[0]["CALLS"], variables[1]["SEEN"]) == (0, [], {"calls": 0})
        assert loaded.preprocess.transforms[0].calls == 0
        with contextlib.suppress(Failure):  # such a model need not be exportable
            loaded.export("torch_export", tmp_path / "a.pt2")
        assert (loaded.model.calls, variables[0]["CALLS"], variables[1]["SEEN"]) == (0, [], {"calls": 0})

    def test_what_has_no_name_is_refused(self, tmp_path: Path) -> None:
        steps = T.Compose([lambda image: image, *colour_steps().transforms])
        with pytest.raises(Failure, match="has no name"):
            bundle.save(
                tmp_path / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=steps,
                target=TARGET,
            )


class TestSteps:
    @pytest.mark.parametrize(
        "steps",
        [
            [T.Resize((20, 24), interpolation=T.InterpolationMode.BICUBIC, antialias=True)],
            [T.Resize(20, max_size=30), T.CenterCrop((16, 18))],
            [T.Pad(3, fill=7, padding_mode="reflect"), T.CenterCrop(16)],
            [T.Grayscale(3), T.Resize([16, 16])],
            [T.Compose([T.Resize(20), T.Compose([T.CenterCrop(8)])])],
            [T.GaussianBlur(3, sigma=(0.5, 0.5)), T.Resize([16, 16])],
            [T.RandomHorizontalFlip(), T.Resize([16, 16])],
        ],
    )
    def test_they_come_back_as_they_were(self, tmp_path: Path, steps: list[Any]) -> None:
        whole = T.Compose(
            [*steps, T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Normalize([0.4] * 3, [0.2] * 3)]
        )
        save = functools.partial(bundle.save, built_by=bundle.Components(PARTS), target=TARGET)
        loaded = bundle.load(save(tmp_path / "a.bundle", colour_net(), preprocess=whole))
        assert same_steps(loaded.preprocess, whole)
        with zipfile.ZipFile(tmp_path / "a.bundle") as archive:
            described = json.loads(archive.read("bundle.json"))["preprocess"]
        assert described["step"] == "Compose"

    def test_one_that_can_not_be_described_is_named(self, tmp_path: Path) -> None:
        steps = T.Compose([*colour_steps().transforms, T.ToDtype({Tensor: torch.float32, "others": None})])
        with pytest.raises(Failure, match="the step ToDtype can't be written into a bundle"):
            bundle.save(
                tmp_path / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=steps,
                target=TARGET,
            )

    def test_state_beside_the_arguments_is_refused(self, tmp_path: Path) -> None:
        normalize = T.Normalize([0.0], [1.0])
        normalize.forward = lambda image: image * 2  # type: ignore[method-assign, assignment]
        steps = T.Compose([*colour_steps().transforms, normalize])
        with pytest.raises(Failure, match="have other results"):
            bundle.save(
                tmp_path / "a.bundle",
                colour_net(),
                built_by=bundle.Components(PARTS),
                preprocess=steps,
                target=TARGET,
            )
