"""What is `auto` in a recipe is measured by its program; `leaven plan` says so."""

from pathlib import Path

import leaven
from leaven.plan.plan import Plan
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.program.standalone import standalone

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data  digits()
train {}
phase "one", epochs=2 {{}}
phase "two", epochs=2{} {{}}
"""


def plan(folder: Path, settings: str, of_phase: str = "") -> Plan:
    file = folder / "recipe.leaven"
    file.write_text(RECIPE.format(settings, of_phase))
    return leaven.make_plan(file)


def test_each_phase_measures_the_precision_unless_it_has_its_own(tmp_path: Path) -> None:
    found = plan(tmp_path, "precision=auto", ", precision=32")
    line = 'phase.choose_precision("32-true", "bf16-mixed")  # line 4'
    assert emit(found).count(line) == 1
    assert "precision: 32 or bf16: measured when the phase begins" in explain(found).partition('phase "two"')[0]
    assert "precision 32 " in explain(found).partition('phase "two"')[2]
    assert emit(plan(tmp_path, "precision=bf16", ", precision=auto")).count(line.replace("line 4", "line 6")) == 1


def test_the_size_of_batches_is_measured_once_before_the_phases(tmp_path: Path) -> None:
    found = plan(tmp_path, "batch=auto")
    assert "batch: 32, doubled as long as that is faster: measured when the run begins" in explain(found)
    assert "steps per epoch" not in explain(found)
    assert emit(found).partition("def main")[2].count("run.choose_batch_size(model, data)  # line 4") == 1


def test_each_phase_measures_whether_compiling_pays(tmp_path: Path) -> None:
    found = plan(tmp_path, "compile=auto")
    assert "compile: if that saves time: measured when the phase begins" in explain(found)
    assert emit(found).count("phase.compile_if_faster(model)  # line 4\n") == 2
    assert "compile=True" in emit(plan(tmp_path, "compile=true"))


def test_auto_may_be_the_value_of_an_arg(tmp_path: Path) -> None:
    file = tmp_path / "recipe.leaven"
    file.write_text('arg size: choice["auto", "no"] = "auto"\narg many: int = 64\n' + RECIPE.format("batch=size", ""))
    assert "run.choose_batch_size(model, data)" in emit(leaven.make_plan(file))
    file.write_text(file.read_text().replace("batch=size", "batch=many"))
    assert "batch_size=args.many" in emit(leaven.make_plan(file))


def test_a_standalone_program_has_the_defaults(tmp_path: Path) -> None:
    measured = plan(tmp_path, "precision=auto, batch=auto, compile=auto")
    assert standalone(measured) == standalone(plan(tmp_path, "batch=32"))
