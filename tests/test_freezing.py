"""One law: check, plan, program and runtime agree on which parameters are frozen in every epoch of every phase.

The check's answer is the recipe's `Freezing`. The plan says it in paths, which are compared with the parameters' names.
The program is run, and a technique of the user's own writes down what it finds at the beginning of each epoch.
"""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st
from tests import at_work

from leaven.catalog.layers import Layers
from leaven.formats.layer_names import is_under
from leaven.language.source import Source
from leaven.plan.compiling import Compiled, compile_source
from leaven.plan.plan import TrainPhase
from leaven.recipe.recipe import Phase

EPOCHS = 3
WATCH = '''
import json
from torch import nn

class Watch:
    """Writes down which of the model's own parameters are frozen, and whether a frozen norm is in evaluation mode."""

    def __init__(self, model, file="frozen.jsonl"):
        self.model, self.file = model, file

    def before_epoch(self, phase):
        frozen = [
            name.replace(".base_layer.", ".")
            for name, parameter in self.model.named_parameters()
            if not parameter.requires_grad
        ]
        for name, part in self.model.named_modules():
            if isinstance(part, nn.BatchNorm2d):
                assert part.training is part.weight.requires_grad, f"{name} is in the wrong mode"
        with open(self.file, "a") as lines:
            lines.write(json.dumps([phase.name, phase.epoch, sorted(frozen)]) + "\\n")
'''
HEAD = """
import "watch.py" as mine
arg later: int = 1
model conv(4) -> res_block(8) -> squeeze_excite() -> res_block(8) -> global_pool() -> linear(classes)
data  digits() { split train=20 samples, val=10 samples, test=10 samples }
mine.Watch
"""

selectors = st.sampled_from(
    [
        "all - head",
        "head",
        "backbone",
        "stem",
        "norms",
        '"1"',
        '"1" + "3"',
        "all - norms - head",
        "first(2)",
        '"*.conv*"',
    ]
)
times = st.sampled_from(["1 epoch", "2 epochs", "later", "later * 2"])
statements = st.one_of(
    st.builds("freeze {}".format, selectors),
    st.builds("unfreeze {}".format, selectors),
    st.builds("unfreeze {}, at={}".format, selectors, times),
    st.sampled_from(["thaw", "thaw every=2", "lp_ft later", "norm_tuning", "linear_probe", "lora rank=1"]),
)
phases = st.lists(statements, max_size=4).map("\n".join)
recipes = st.lists(phases, min_size=1, max_size=2).map(
    lambda blocks: HEAD + "\n".join(f'phase "p{n}", epochs={EPOCHS} {{\n{block}\n}}' for n, block in enumerate(blocks))
)


def frozen_by_check(phase: Phase) -> list[set[str]]:
    assert phase.freezing is not None
    return [set(phase.freezing.in_epoch(epoch)) for epoch in range(EPOCHS)]


def frozen_by_plan(phase: TrainPhase, layers: Layers) -> list[set[str]]:
    names = [parameter.name for parameter in layers.parameters]
    always: set[str] = set()
    if phase.freeze is not None:
        always = {name for name in names if is_under(name, phase.freeze.paths) is not phase.freeze.is_all_but}
    later = [(int(one.at.text.split()[0]), one.paths) for one in phase.unfreeze_later]
    found = []
    for epoch in range(EPOCHS):
        waiting = {name for name in names if any(is_under(name, paths) for _, paths in later)}
        due = {name for name in names if any(at <= epoch and is_under(name, paths) for at, paths in later)}
        found.append((always | waiting) - due)
    return found


def compiled(folder: Path, text: str) -> Compiled:
    """The recipe and its plan; None where the check refuses it."""
    folder.mkdir()
    (folder / "watch.py").write_text(WATCH)
    (folder / "recipe.leaven").write_text(text)
    return compile_source(Source("recipe.leaven", text, folder))


@given(st.lists(recipes, min_size=12, max_size=12, unique=True))
@settings(
    max_examples=1,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Stage.generate],
)
def test_check_plan_program_and_runtime_agree(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("recipes")
    found = {folder / f"r{at}": compiled(folder / f"r{at}", text) for at, text in enumerate(texts)}
    sound = {place: (one.recipe, one.plan) for place, one in found.items() if one.recipe and one.plan}
    assert len(sound) >= 5, "too many of the recipes are refused to say anything"
    failed = at_work.run_each([at_work.program(place, (place / "recipe.leaven").read_text()) for place in sound])
    assert not failed, "\n".join(failed.values())
    for place, (recipe, plan) in sound.items():
        text = (place / "recipe.leaven").read_text()
        assert recipe.model.layers is not None
        lines = [json.loads(line) for line in (place / "frozen.jsonl").read_text().splitlines()]
        for checked, planned in zip(recipe.phases, plan.phases, strict=True):
            expected = frozen_by_check(checked)
            assert frozen_by_plan(planned, recipe.model.layers) == expected, text
            ran = {epoch: set(names) for phase, epoch, names in lines if phase == checked.name}
            assert [ran[epoch] for epoch in range(EPOCHS)] == expected, text
