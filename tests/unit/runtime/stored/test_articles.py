"""The recipes in the articles of cards end with the same weights and scores with and without the planner."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.unit.catalog.test_own import CARDS, examples

from leaven.catalog.card import Card
from leaven.language import syntax
from leaven.language.parser import parse
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.plan.plan_json import to_json
from leaven.planning.compiling import compile_source
from leaven.program.emit import emit
from leaven.statements.options import Options

MODEL = "model timm.resnet10t()"
SPLIT = "split train=48 samples, val=24 samples, test=24 samples"
DATA = f"data digits() {{ {SPLIT}; eval resize(32) }}"
FREEZING = "freeze conv1 + bn1 + layer1 + layer2"
SHORTER = (  # what an example says, and what is trained in its place: in seconds, with the files that are there
    (r"epochs=\d+", "epochs=2"),
    (r"at=\d+ epochs", "at=1 epochs"),
    (r"warmup=\d+ (steps|epochs)", "warmup=2 steps"),
    (r"split train=[^}\n]*", ""),
    (r"(folder\([^)]*\)|digits\(\)) \{", f"digits() {{ {SPLIT};"),
    (r"folder\([^)]*\)", f"digits() {{ {SPLIT} }}"),
    (r"\b(224|256)\b", "32"),
    (r"(, )?pretrained=true", ""),
    (r'"\*query" \+ "\*value"', "layer3"),
    (r"val\.f1", "val.loss"),
)
EXPECTED = {  # a kind of cards: how many of their examples the planner changes
    "technique": 15,
    "schedule": 5,
    "loss": 2,
    "metric": 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPECTED)
def test_they_end_the_same_with_and_without_the_planner(kind: str, tmp_path: Path) -> None:
    pairs = {}
    for card in CARDS:
        for number, example in enumerate(examples(card) if card.kind == kind else ()):
            folder = tmp_path / f"{card.name}_{number}"
            folder.mkdir()
            plan = _plan(card, example, folder)
            if plan is not None and plan.asked is not None and emit(plan) != emit(plan.asked):
                pairs[folder] = _written(folder / "planned", plan), _written(folder / "plain", plan.asked)
    assert len(pairs) >= EXPECTED[kind]
    files = [file for pair in pairs.values() for file in pair]
    assert at_work.run_each(files, "--output", "runs", "--train-only") == {}
    wrong = [folder.name for folder, (planned, plain) in pairs.items() if not _are_same(planned.parent, plain.parent)]
    assert not wrong


def _plan(card: Card, example: str, folder: Path) -> Plan | None:
    """The plan of an example, in a recipe with what it leaves out; None where it needs files or another task."""
    names = {each.name.path for each in parse(Source(card.name, example)).tree.statements if _is_statement(each)}
    for said, shorter in SHORTER:
        example = re.sub(said, shorter, example)
    has_phases = "phase" in names
    recipes = (
        "\n".join([MODEL] * ("model" not in names) + [DATA] * ("data" not in names) + [example.rstrip(), *more]) + "\n"
        for more in _rest(has_phases, "train" in names, bool(names & {"freeze", "unfreeze", "phase"}))
    )
    found = (compile_source(Source("recipe.leaven", recipe, folder), Options()).plan for recipe in recipes)
    return next((plan for plan in found if plan is not None), None)


def _rest(has_phases: bool, has_train: bool, has_freezing: bool) -> Iterator[list[str]]:
    train = [] if has_train else ["train batch=16" if has_phases else "train batch=16, epochs=3"]
    if not has_freezing:
        yield [FREEZING, *train]
    yield train


def _is_statement(each: object) -> bool:
    return isinstance(each, syntax.Statement)


def _written(folder: Path, plan: Plan) -> Path:
    folder.mkdir()
    (folder / "program.py").write_text(emit(plan), encoding="utf-8")
    (folder / "plan.json").write_text(to_json(plan), encoding="utf-8")
    return folder / "program.py"


def _are_same(one: Path, other: Path) -> bool:
    return _left_in(one) == _left_in(other)


def _left_in(folder: Path) -> tuple[list[dict[str, str]], dict[str, list[bytes]]]:
    """The scores of a run, without their times, and the bytes of its weights."""
    runs = sorted(folder.glob("runs/*/metrics.csv"))
    assert runs, folder
    rows = [row for file in runs for row in csv.DictReader(file.read_text().splitlines())]
    scores = [{name: value for name, value in row.items() if name != "seconds"} for row in rows]
    saved = [torch.load(file.parent / "last.ckpt", weights_only=True)["state"]["model"] for file in runs]
    return scores, {name: [state[name].numpy().tobytes() for state in saved] for name in saved[0]}
