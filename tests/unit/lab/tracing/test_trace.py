"""A trace is what training does to the sample: the same draws, the same batch, the same mixture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

import leaven
from leaven.lab import trace
from leaven.runtime.failures import Failure

MINE = """
import random
from torchvision.transforms import v2 as T


def jitter(image):
    return image.rotate(random.randint(-40, 40))


class Shift(T.Transform):
    def make_params(self, flat_inputs):
        return {"by": random.randint(1, 3)}

    def transform(self, inpt, params):
        return T.functional.affine(inpt, 0.0, [params["by"], 0], 1.0, [0.0, 0.0])
"""
TRAIN = {
    "crop": "random_resized_crop(8) -> horizontal_flip() -> random_rotation(30)",
    "containers": "random_apply([random_crop(8, padding=2)], p=0.5) -> random_choice([vertical_flip(), grayscale()])",
    "policies": "rgb() -> trivial_augment() -> auto_augment() -> rand_augment()",
    "own code": "mine.jitter -> mine.Shift()",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def digits(
    train: str, more: str = "", data: str = "", *, model: str = "conv(4) -> global_pool() -> linear(classes)"
) -> str:
    Path("mine.py").write_text(MINE)
    text = f"""
    import "mine.py" as mine
    model conv(4) -> global_pool() -> linear(classes)
    data  digits() {{
        train {train}
        eval  center_crop(8)
        split train=60 samples, val=20 samples, test=20 samples
        {data}
    }}
    {more}
    train epochs=3, batch=8, seed=5
    """
    Path("r.leaven").write_text(text)
    return "r.leaven"


def value(found: Any, draw: int = 0) -> torch.Tensor:
    last: torch.Tensor = found.draws[draw].steps[-1].value
    return last.as_subclass(torch.Tensor)


@pytest.mark.parametrize("name", sorted(TRAIN))
def test_it_ends_with_the_image_that_training_gets(name: str) -> None:
    recipe = digits(TRAIN[name], data="workers 2" if name == "crop" else "")
    found = trace(recipe, 7, draws=3, epoch=1)
    with leaven.open(recipe) as session:
        for draw in found.draws:
            landing = draw.landing
            assert landing is not None
            images, targets = next(session.data.train.batches(draw.epoch - 1, first=landing.number - 1))
            assert torch.equal(draw.steps[-1].value, images[landing.place - 1])
            assert session.data.classes[targets[landing.place - 1]] == found.target
    assert len({draw.steps[-1].value.numpy().tobytes() for draw in found.draws}) > 1


def test_the_arguments_are_those_that_were_applied() -> None:
    found = trace(digits("random_resized_crop(8) -> horizontal_flip()"), 3, draws=6)
    for draw in found.draws:
        loaded, crop, flip = draw.steps[0], draw.steps[1], draw.steps[2]
        box = crop.applied[0].arguments
        assert box is not None
        again = F.resized_crop(loaded.value, **box, size=[8, 8], interpolation=F.InterpolationMode.BILINEAR)
        assert np.array_equal(np.asarray(again), np.asarray(crop.value))
        is_flipped = not np.array_equal(np.asarray(flip.value), np.asarray(crop.value))
        assert flip.applied[0].is_applied == is_flipped or np.array_equal(
            np.asarray(crop.value), np.asarray(F.hflip(crop.value))
        )
        assert crop.area is not None
        assert crop.area.share == pytest.approx(box["width"] * box["height"] / 64, abs=0.05)
    assert {draw.steps[2].drawn for draw in found.draws} == {"applied", "not applied"}


def test_what_is_not_known_of_own_code_is_said() -> None:
    steps = trace(digits("mine.jitter -> mine.Shift()"), 3).draws[0].steps
    assert (steps[1].name, steps[1].drawn) == ("mine.jitter", "drawn at random; arguments not known")
    assert steps[2].drawn.startswith("by ")
    assert steps[1].line == 5


def test_nothing_else_draws_other_numbers_afterwards() -> None:
    recipe = digits(TRAIN["own code"])
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = trace(recipe, 4), trace(recipe, 4)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(value(first), value(second))


def test_mixup_is_that_of_the_step() -> None:
    Path("kept.py").write_text(
        "import torch\n"
        "def step(model, batch, criterion):\n"
        "    torch.save(batch, f'step{step.count}.pt')\n"
        "    step.count += 1\n"
        "    return criterion(model(batch[0]), batch[1])\n"
        "step.count = 0\n"
    )
    recipe = digits(
        "random_crop(8, padding=1)", 'import "kept.py" as kept\n    mixup 0.4\n    override train_step, kept.step'
    )
    found = trace(recipe, 11)
    landing = found.draws[0].landing
    assert landing is not None
    with leaven.open(recipe) as session:
        session.step(landing.number)
    inputs, targets = torch.load(f"step{landing.number - 1}.pt")
    mixed = landing.mixed[0]
    assert mixed.partner.startswith("digit ")
    assert mixed.weight is not None
    own, other = targets[landing.place - 1], trace(recipe, mixed.partner)
    assert float(own[int(other.target)]) == pytest.approx(mixed.weight, abs=1e-4)
    blended = (1 - mixed.weight) * value(found) + mixed.weight * value(other)
    assert torch.allclose(blended, inputs[landing.place - 1], atol=1e-5)


def test_a_sample_by_its_name() -> None:
    for kind in ("cat", "dog"):
        Path("photos", kind).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (30, 20), (9 * number, 0, 90)).save(f"photos/{kind}/{number}.png")
    Path("r.leaven").write_text(
        "model conv(4) -> global_pool() -> linear(classes)\n"
        'data folder("photos") { eval resize([12, 12]); split train=70%, val=30%, test=0 }\ntrain epochs=1, batch=4\n'
    )
    train = trace("r.leaven")
    assert trace("r.leaven", train.sample).target == train.sample.split("/")[-2]
    with leaven.open("r.leaven") as session:
        reader = session.data.train.reader  # type: ignore[attr-defined]
        ends = [reader.dataset.name(at).rpartition("/")[2] for at in reader.indices.tolist()]
    with pytest.raises(Failure, match="means 2 samples"):
        trace("r.leaven", next(end for end in ends if ends.count(end) == 2))
    with pytest.raises(Failure, match=r"there is no sample cat/99\.png") as problem:
        trace("r.leaven", "cat/99.png")
    assert problem.value.help.startswith(("did you mean", "for example"))
    other = trace("r.leaven", split="val").sample
    with pytest.raises(Failure, match="not in train, but in val"):
        trace("r.leaven", other)
    assert trace("r.leaven", other, "eval").draws[0].landing is None


def test_as_json_and_as_a_picture() -> None:
    found = trace(digits(TRAIN["policies"], "cutmix"), draws=2)
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [step["line"] for step in told["draws"][0]["steps"]][1:4] == [5, 5, 5]
    assert told["draws"][1]["batch"]["mixed"][0]["name"].startswith("cutmix")
    picture = found.picture()
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    assert "arguments as drawn" in str(found)


def test_the_way_into_a_published_model() -> None:
    Image.new("RGB", (300, 200), (9, 90, 200)).save("photo.png")
    found = trace("efficientnet_lite0", "photo.png", "eval")
    assert found.draws[0].steps[-1].content.shape == (3, 224, 224)
    area = found.draws[0].steps[-1].area
    assert area is not None
    assert area.share == pytest.approx((224 / 256) ** 2 * 2 / 3, abs=0.05)
    with pytest.raises(Failure, match="which image"):
        trace("efficientnet_lite0")
