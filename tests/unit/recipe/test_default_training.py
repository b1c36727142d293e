"""What a phase gets where the recipe does not say: by what is trainable, and by how much data there is."""

from pathlib import Path

import pytest
from PIL import Image

import leaven
from leaven.language.source import Source
from leaven.recipe.recipe import Phase

REUSED = "model resnet18(pretrained=true)\ndata digits()\n"


def phases(text: str, folder: Path = Path()) -> tuple[Phase, ...]:
    recipe = leaven.check(Source("recipe.leaven", text, folder)).recipe
    assert recipe is not None
    return recipe.phases


def rates(phase: Phase) -> list[float]:
    """The learning rate of a phase, then those of its groups."""
    optimizer = phase.optimizer
    return [optimizer.invocation.value("lr"), *(s.value for g in optimizer.groups for s in g.settings)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(REUSED + "freeze all - head", [3e-3], id="only the new head"),
        pytest.param(REUSED, [3e-4, 3e-3], id="trained layers and a new head"),
        pytest.param(REUSED + "reinit layer4", [3e-4, 3e-3], id="re-initialised layers are new, too"),
        pytest.param(REUSED + "lora rank=2", [1e-3, 3e-3], id="adapters and a new head"),
        pytest.param(REUSED + "norm_tuning", [1e-3, 3e-3], id="few reused parameters and a new head"),
        pytest.param("model resnet18()\ndata digits()\n", [1e-3], id="from scratch"),
        pytest.param(REUSED + "optimizer adamw(weight_decay=0.1)", [3e-4, 3e-3], id="AdamW without a rate"),
        pytest.param(REUSED + "optimizer adamw(lr=0.5)", [0.5], id="a rate that is written"),
        pytest.param(REUSED + "optimizer nadam()", [2e-3], id="another optimizer"),
    ],
)
def test_the_rate_is_chosen_by_what_is_trainable(text: str, expected: list[float]) -> None:
    assert rates(phases(text)[0]) == expected


@pytest.mark.parametrize(
    ("technique", "expected"),
    [("freeze all - head", [3e-3]), ('lora rank=8, on="*query" + "*value"', [1e-3, 3e-3]), ("", [5e-5, 5e-4])],
)
def test_text_models_have_rates_of_their_own(technique: str, expected: list[float], tmp_path: Path) -> None:
    (tmp_path / "sms.csv").write_text("text,label\n" + "".join(f"message {at},{at % 2}\n" for at in range(40)))
    data = 'data csv("sms.csv", text="text", label="label")\n'
    assert rates(phases(f"model minilm(pretrained=true)\n{data}{technique}\n", tmp_path)[0]) == expected


def test_a_head_that_a_phase_has_trained_is_no_longer_new() -> None:
    head, everything = phases(REUSED + 'phase "head", epochs=1 { freeze all - head }\nphase "all", epochs=1\n')
    assert rates(head) == [3e-3]
    assert rates(everything) == [3e-4]


def test_a_phase_of_no_epochs_trains_nothing() -> None:
    _, everything = phases(REUSED + 'phase "head", epochs=0 { freeze all - head }\nphase "all", epochs=1\n')
    assert rates(everything) == [3e-4, 3e-3]


def norms_are_frozen(phase: Phase) -> bool:
    assert phase.freezing is not None
    return "bn1.weight" in phase.freezing.frozen


def test_with_few_samples_batch_norms_are_frozen() -> None:
    assert norms_are_frozen(phases(REUSED)[0])
    assert not norms_are_frozen(phases(REUSED.replace("digits()", "cifar10()"))[0])


@pytest.mark.parametrize(
    "said",
    [
        "unfreeze norms",
        "freeze conv1",
        "reinit layer4",
        "prune unstructured(), amount=10%",
        "optimizer adamw() { group norms, weight_decay=0.0 }",
    ],
)
def test_a_recipe_that_freezes_layers_gets_no_default_freezing(said: str) -> None:
    assert not norms_are_frozen(phases(REUSED + said)[0])


def test_without_batch_norms_there_is_nothing_to_freeze() -> None:
    (phase,) = phases("model convnext_atto(pretrained=true)\ndata digits()\n")
    assert phase.freezing is not None
    assert not phase.freezing.frozen


def test_few_images_are_gone_through_more_often(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for at in range(5):
            Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / f"{at}.png")
    (few,) = phases('model resnet18()\ndata folder("photos")\n', tmp_path)
    (many,) = phases("model resnet18()\ndata cifar10()\n")
    rows = (f"photos/a/0.png,{number % 2}\n" for number in range(130_000))
    (tmp_path / "table.csv").write_text("file,label\n" + "".join(rows))
    (most,) = phases('model resnet18()\ndata csv("table.csv", image="file")\n', tmp_path)
    assert [one.epochs.value.amount for one in (few, many, most)] == [20, 10, 5]


def test_show_says_why() -> None:
    shown = leaven.show(Source("recipe.leaven", REUSED + 'phase "all", epochs=1\n'))
    assert "# default: for reused layers; new layers learn faster" in shown
    assert "# default: 1,437 training samples are too few for batch norms" in shown


@pytest.mark.parametrize(
    ("count", "model", "least"),
    [
        pytest.param(30, "pretrained=true", 0.35, id="few images for a trained model"),
        pytest.param(30, "", 0.08, id="few images, from scratch"),
        pytest.param(2_600, "pretrained=true", 0.08, id="many images"),
    ],
)
def test_crops_of_few_images_for_a_trained_model_keep_most_of_each(
    count: int, model: str, least: float, tmp_path: Path
) -> None:
    image = tmp_path / "one.png"
    Image.new("RGB", (40, 30)).save(image)
    for at in range(count):
        folder = tmp_path / "photos" / ("a", "b")[at % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at}.png").hardlink_to(image)
    recipe = leaven.check(Source("recipe.leaven", f'model resnet18({model})\ndata folder("photos")\n', tmp_path)).recipe
    assert recipe is not None
    assert recipe.data.train is not None
    crop = recipe.data.train.stages[0]
    assert crop.card.friendly == "random_resized_crop"
    assert crop.value("scale") == (least, 1.0)
