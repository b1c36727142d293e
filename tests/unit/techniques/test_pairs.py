"""Any two techniques work together in one phase, or the check says why not.

Every pair is compiled and run.
"""

from itertools import combinations
from pathlib import Path

import pytest
from tests import at_work

from leaven.catalog import own
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Source
from leaven.planning.compiling import compile_source
from leaven.program.emit import emit

pytestmark = pytest.mark.slow

RECIPE = """
model conv(8) -> batch_norm() -> relu() -> res_block(8) -> global_pool() -> linear(classes)
data digits() {{ split train=16 samples, val=10 samples, test=10 samples }}
train epochs=2, batch=8
{first}
{second}
"""
SAID = {  # what must be said to those that can't do without; a teacher is said to all that want one
    "prune": "prune structured(), amount=25%",
}
REFUSALS = (
    "adapted-twice",
    "adapter-after-pruning",
    "incompatible-techniques",
    "missing-library",
    "nothing-to-unfreeze",
    "pruning-order",
    "teacher-weights",
)
NAMES = own.names("technique")


def said(name: str) -> str:
    """A technique as a recipe writes it."""
    card = own.read("technique", name)
    assert card is not None
    wants_teacher = any(parameter.required and "model" in parameter.types for parameter in card.parameters)
    return SAID.get(name, f'{name} before_phase("train")' if wants_teacher else name)


def program_of(first: str, second: str, file: Path) -> list[Diagnostic]:
    """Writes the program of a recipe with two techniques; or says what the check has against it."""
    text = RECIPE.format(first=said(first), second=said(second))
    compiled = compile_source(Source("pair.leaven", text))
    if compiled.plan is None:
        return [one for one in compiled.diagnostics if one.is_error]
    file.write_text(emit(compiled.plan), encoding="utf-8")
    return []


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """The programs of all pairs; a pair that is refused has none, and must have been told why."""
    folder = tmp_path_factory.mktemp("pairs")
    written: dict[tuple[str, str], Path] = {}
    for first, second in combinations(NAMES, 2):
        file = folder / f"{first}_and_{second}.py"
        refused = program_of(first, second, file)
        for report in refused:
            assert report.id in REFUSALS, f"{first} and {second}: {report}"
            assert report.notes or report.fix, f"{first} and {second} are refused without a reason"
        if not refused:
            written[first, second] = file
    return written


def test_most_pairs_are_allowed_and_not_all(programs: dict[tuple[str, str], Path]) -> None:
    pairs = len(NAMES) * (len(NAMES) - 1) // 2
    assert pairs / 2 < len(programs) < pairs


@pytest.mark.parametrize("first", NAMES)
def test_two_run_together(first: str, programs: dict[tuple[str, str], Path]) -> None:
    files = [file for pair, file in programs.items() if pair[0] == first]
    failed = at_work.run_each(files, "--quick", "--output", "runs") if files else {}
    assert not failed, "\n\n".join(f"{file.stem}:\n{said}" for file, said in failed.items())
