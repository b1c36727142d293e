"""What differs between two recipes: by their meaning, in their words."""

from pathlib import Path

from leaven.lab.comparison.recipes import Difference, lock_differences, recipe_differences
from leaven.lab.subject import Subject
from leaven.plan.plan import Plan

FIRST = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() { split train=200 samples, val=50 samples, test=40 samples, seed=3 }
optimizer adamw(lr=1e-3)
train epochs=2, batch=32, seed=1
"""


def plan(folder: Path, recipe: str) -> Plan:
    file = folder / "recipe.leaven"
    file.write_text(recipe)
    found = Subject(file).plan
    assert found is not None
    return found


def apart(folder: Path, recipe: str) -> list[Difference]:
    return list(recipe_differences(plan(folder, FIRST), plan(folder, recipe)))


def test_layout_comments_and_written_defaults_make_no_difference(tmp_path: Path) -> None:
    same = """
    # the same
    train batch=32, epochs=2, seed=1, accumulate=1
    optimizer torch.AdamW(weight_decay=0.01, lr=0.001)
    data digits() {
        split seed=3, val=50 samples, train=200 samples, test=40 samples
    }
    model conv(8, kernel=3) -> global_pool() -> linear(classes)
    """
    assert apart(tmp_path, same) == []


def test_the_seed_is_not_part_of_the_recipe(tmp_path: Path) -> None:
    assert apart(tmp_path, FIRST.replace("seed=1", "seed=7")) == []


def test_each_setting_that_differs_is_named(tmp_path: Path) -> None:
    other = FIRST.replace("lr=1e-3", "lr=0.01").replace("epochs=2", "epochs=5").replace("seed=3", "seed=4")
    assert apart(tmp_path, other) == [
        Difference("data split seed", "3", "4"),
        Difference('phase "train" epochs', "2 epochs", "5 epochs"),
        Difference('phase "train" optimizer lr', "0.001", "0.01"),
    ]


def test_techniques_and_other_optimizers_are_told_whole(tmp_path: Path) -> None:
    found = apart(tmp_path, FIRST.replace("adamw(lr=1e-3)", "sgd(lr=0.1)") + "mixup 0.2\n")
    assert [(one.what, one.a) for one in found] == [
        ('phase "train" mixup', "none"),
        ('phase "train" optimizer', "adamw(lr=0.001)"),
    ]
    assert found[1].b.startswith("sgd(lr=0.1")


def test_a_layer_of_another_width_is_named_once(tmp_path: Path) -> None:
    assert apart(tmp_path, FIRST.replace("conv(8)", "conv(16)")) == [
        Difference("model Conv", "conv(channels=8)", "conv(channels=16)")
    ]


def test_locks_tell_arguments_data_seed_and_versions() -> None:
    a = {"seed": 1, "packages": {"torch": "2.14.0"}, "data": {"train": 200, "outputs": ["cat", "dog"]}}
    b = {"seed": 2, "packages": {"torch": "2.15.0"}, "data": {"train": 210, "outputs": ["cat"]}, "arguments": {"lr": 1}}
    assert [(one.what, one.a, one.b) for one in lock_differences(a, b)] == [
        ("argument lr", "none", "1"),
        ("data train", "200", "210"),
        ("data outputs", "cat, dog", "cat"),
        ("seed", "1", "2"),
        ("version of torch", "2.14.0", "2.15.0"),
    ]
