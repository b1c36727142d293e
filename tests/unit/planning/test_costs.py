"""`leaven plan` says what the planner's choices cost, and what the recipe would cost without them."""

from typing import Any

import pytest

import leaven
from leaven.language.source import Source
from leaven.planning.costs import Cost, expected_costs
from leaven.planning.explain import explain
from leaven.survey.frozen_part import answer

# 1,617 samples are left for training
DATA = "data digits() { split val=180 samples; train rgb() -> resize(32); eval rgb() -> resize(32) }\n"


def costs(text: str) -> tuple[Cost, ...]:
    return expected_costs(leaven.make_plan(Source("a.leaven", text)), size=(32, 32))


def test_frozen_layers_run_once_per_image_and_their_outputs_take_space() -> None:
    model = "model timm.resnet10t()\n"
    (cost,) = costs(f"{model}{DATA}train epochs=10\nfreeze all - head\n")
    assert (cost.passes, cost.passes_without) == (1_797, 17_970)
    assert cost.text().startswith("1,797 forward passes, 3.7 MB on disk, about ")
    assert cost.text(without=True).startswith("17,970 forward passes, about ")
    assert cost.text().endswith(" of CPU time")


def test_the_plan_as_asked_is_beside_the_plan_as_it_is_run() -> None:
    plan = leaven.make_plan(Source("a.leaven", f"model timm.resnet10t()\n{DATA}train epochs=10\nfreeze all - head\n"))
    said = explain(plan, costs=expected_costs(plan, size=(32, 32)))
    lines = [line.partition("#")[0].strip() for line in said.splitlines()]
    at = lines.index("frozen layers: run once per image; their outputs are stored")
    assert lines[at + 1] == "without this: run in every epoch"
    assert lines[at + 2].startswith("frozen layers: 1,797 forward passes, 3.7 MB on disk, about ")
    assert lines[at + 3].startswith("without this: 17,970 forward passes, about ")


def test_views_are_counted_and_augmented_images_are_not_stored() -> None:
    data = DATA.replace("train rgb()", "train rgb() -> random_horizontal_flip()")
    recipe = f"model timm.resnet10t()\n{data}train epochs=10\nfreeze all - head\n"
    (augmented,) = costs(recipe)
    assert augmented.passes == 1_617 * 10 + 180
    (views,) = costs(f"{recipe}features views=4\n")
    assert views.passes == 1_617 * 4 + 180
    assert views.stored == 1_617 * 4 + 180


def test_a_teacher_is_asked_once() -> None:
    model = "model conv(8) -> global_pool() -> linear(classes)\n"
    phases = 'phase "one", epochs=1 {}\nphase "two", epochs=10 { distill before_phase("two") }'
    (cost,) = costs(f"{model}{DATA}{phases}\n")
    assert cost.about == "teacher"
    assert (cost.passes, cost.passes_without) == (1_617, 16_170)


@pytest.mark.parametrize(
    ("frozen", "ends", "image_bytes"),
    [
        ({"all_but": ["fc"]}, ["global_pool"], 512 * 4),
        ({"all_but": ["layer4", "fc"]}, ["layer3.1.act2"], 256 * 2 * 2 * 4),
        ({"all_but": []}, ["fc"], 1000 * 4),
    ],
)
def test_the_part_that_is_stored_is_measured(frozen: dict[str, Any], ends: list[str], image_bytes: int) -> None:
    told = answer(
        {"target": "timm.create_model", "timm_name": "resnet18", "input_size": [32, 32], "arguments": {}}
        | {"freeze": frozen}
    )
    assert (told["ends"], told["image_bytes"]) == (ends, image_bytes)
    assert told["image_seconds"] > 0


def test_a_model_whose_first_layer_is_trained_has_no_such_part() -> None:
    request = {"target": "timm.create_model", "timm_name": "resnet18", "input_size": [32, 32], "arguments": {}}
    assert answer({**request, "freeze": {"only": ["fc"]}}) == {"error": "a trainable layer comes first"}
