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
from leaven.plan.plan import TrainPhase
from leaven.planning.compiling import Compiled, compile_source
from leaven.recipe.recipe import Phase

EPOCHS = 3
WATCH = '''
import json
from torch import nn

class Watch:
    """Writes down which of the model's own parameters are frozen, and which norms update their statistics."""

    def __init__(self, model, file="frozen.jsonl"):
        self.model, self.file = model, file

    def before_epoch(self, phase):
        frozen = [
            name.replace(".base_layer.", ".")
            for name, parameter in self.model.named_parameters()
            if not parameter.requires_grad
        ]
        parts = self.model.named_modules()
        norms = [name for name, part in parts if isinstance(part, nn.BatchNorm2d) and part.training]
        with open(self.file, "a") as lines:
            lines.write(json.dumps([phase.name, phase.epoch, sorted(frozen), norms]) + "\\n")
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
    st.builds("freeze {}, norms=train".format, selectors),
    st.builds("unfreeze {}".format, selectors),
    st.builds("unfreeze {}, at={}".format, selectors, times),
    st.sampled_from(["thaw", "thaw every=2", "lp_ft later", "norm_tuning", "linear_probe", "lora rank=1"]),
)
unfreezing_twice = st.builds(
    "freeze all - head\nunfreeze {}, at={}\nunfreeze {}, at={}".format, selectors, times, selectors, times
)
phases = st.one_of(st.lists(statements, max_size=4).map("\n".join), unfreezing_twice)
recipes = st.lists(phases, min_size=1, max_size=2).map(
    lambda blocks: HEAD + "\n".join(f'phase "p{n}", epochs={EPOCHS} {{\n{block}\n}}' for n, block in enumerate(blocks))
)


def frozen_by_check(phase: Phase) -> list[set[str]]:
    assert phase.freezing is not None
    return [set(at_work.frozen_in(phase.freezing, epoch)) for epoch in range(EPOCHS)]


def norms_by_check(phase: Phase, layers: Layers) -> list[set[str]]:
    """The BatchNorms whose statistics are updated in each epoch: they are trainable, or frozen with `norms=train`."""
    assert phase.freezing is not None
    norms: dict[str, set[str]] = {}
    for parameter in layers.parameters:
        if parameter.module_type == "BatchNorm2d":
            norms.setdefault(parameter.module_path, set()).add(parameter.name)
    on = phase.freezing.norms_on
    return [{path for path, own in norms.items() if own - frozen or own <= on} for frozen in frozen_by_check(phase)]


def frozen_by_plan(phase: TrainPhase, layers: Layers) -> list[set[str]]:
    names = [parameter.name for parameter in layers.parameters]
    always: set[str] = set()
    if phase.freeze is not None:
        always = {name for name in names if is_under(name, phase.freeze.paths) is not phase.freeze.is_all_but}
    later = [(int(one.at.text.split()[0]), one.paths) for one in phase.unfreeze_later]
    assert all(sum(is_under(name, paths) for _, paths in later) <= 1 for name in names), "a layer is unfrozen twice"
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


def frozen_in_each_epoch(folder: Path, statements: str) -> list[set[str]]:
    """What a phase freezes of the model's layers 1 and 3."""
    recipe = compiled(folder / "r", HEAD + f'phase "p", epochs={EPOCHS} {{\n{statements}\n}}').recipe
    assert recipe is not None
    return [{name[0] for name in frozen} & {"1", "3"} for frozen in frozen_by_check(recipe.phases[0])]


def test_a_later_unfreeze_replaces_the_time_of_an_earlier_one(tmp_path: Path) -> None:
    twice = 'freeze all - head\nunfreeze backbone, at=1 epoch\nunfreeze "1", at=2 epochs'
    assert frozen_in_each_epoch(tmp_path, twice) == [{"1", "3"}, {"1"}, set()]


def test_an_unfreeze_that_has_an_effect_in_one_of_the_phases_is_not_reported(tmp_path: Path) -> None:
    phases = 'phase "p", epochs=2 { }\nphase "q", epochs=2 { freeze "1" }'
    report = compiled(tmp_path / "r", HEAD + f'freeze "3"\nfreeze "1"\nunfreeze "1", at=1 epoch\n{phases}')
    assert [one.id for one in report.diagnostics if one.id == "nothing-frozen"] == []


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
            ran = {epoch: (set(names), set(norms)) for phase, epoch, names, norms in lines if phase == checked.name}
            assert [ran[epoch][0] for epoch in range(EPOCHS)] == expected, text
            assert [ran[epoch][1] for epoch in range(EPOCHS)] == norms_by_check(checked, recipe.model.layers), text
