"""Any two techniques work together in one phase, or the check says why not."""

from pathlib import Path

import pytest
from tests import at_work

from leaven.catalog import own
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Source
from leaven.plan.compiling import compile_source
from leaven.program.emit import emit

RECIPE = """
model conv(8) -> batch_norm() -> relu() -> res_block(8) -> global_pool() -> linear(classes)
data digits() {{ split train=32 items, val=16 items, test=16 items }}
train epochs=1, batch=8
{first}
{second}
"""
SAID = {  # what must be said to those that can't do without; a teacher is said to all that want one
    "prune": "prune structured(), amount=25%",
}
REFUSALS = ("contradiction", "missing-library")


def _is_built(name: str) -> bool:
    card = own.read("technique", name)
    return card is not None and bool(card.technique.hooks or card.technique.trains_only)


NAMES = [name for name in own.names("technique") if _is_built(name)]


def said(name: str) -> str:
    """A technique as a recipe writes it."""
    card = own.read("technique", name)
    assert card is not None
    wants_teacher = any(parameter.required and "model" in parameter.types for parameter in card.parameters)
    return SAID.get(name, f'{name} former("train")' if wants_teacher else name)


def program_of(first: str, second: str, file: Path) -> list[Diagnostic]:
    """Writes the program of a recipe with two techniques; or says what the check has against it."""
    text = RECIPE.format(first=said(first), second=said(second))
    compiled = compile_source(Source("pair.leaven", text))
    if compiled.plan is None:
        return [one for one in compiled.diagnostics if one.is_error]
    file.write_text(emit(compiled.plan), encoding="utf-8")
    return []


@pytest.mark.parametrize("first", NAMES)
def test_each_two_run_together_or_are_refused_with_a_reason(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs: list[Path] = []
    for second in NAMES[NAMES.index(first) + 1 :]:
        file = tmp_path / f"{first}_and_{second}.py"
        refused = program_of(first, second, file)
        for report in refused:
            assert report.id in REFUSALS, f"{first} and {second}: {report}"
            assert report.notes or report.fix, f"{first} and {second} are refused without a reason"
        if not refused:
            programs.append(file)
    failed = at_work.run_each(programs, "--quick", "--output", "runs") if programs else {}
    assert not failed, "\n\n".join(f"{file.stem}:\n{said}" for file, said in failed.items())
