"""The edit of a report, applied as an editor does, gives a recipe without errors."""

import pytest

from leaven.language.source import Source
from leaven.rules.checker import check

START = "model resnet18()\ndata digits()\n"
FROM_SCRATCH = "model conv(8) -> res_block(8) -> global_pool() -> linear(classes)\ndata digits()\n"

FIXED = {
    "a layer whose path begins with a number": (
        FROM_SCRATCH + "freeze conv1\n",
        FROM_SCRATCH + 'freeze "1.conv1"\n',
    ),
    "a block that is never closed": (
        START + 'phase "a", epochs=2 {\n    freeze all - head\nphase "b", epochs=3 { ema 0.999 }\n',
        START + 'phase "a", epochs=2 {\n    freeze all - head\n}\nphase "b", epochs=3 { ema 0.999 }\n',
    ),
    "a block that is never closed, at the end": (
        START + 'phase "a", epochs=2 {\n    freeze all - head  # still\n',
        START + 'phase "a", epochs=2 {\n    freeze all - head}  # still\n',
    ),
    "a bracket that is never closed, before a comment": (
        "model resnet18(  # small\ndata digits()\n",
        "model resnet18()  # small\ndata digits()\n",
    ),
}


@pytest.mark.parametrize("case", FIXED)
def test_an_edit_fixes_the_recipe(case: str) -> None:
    before, after = FIXED[case]
    report = check(Source("recipe.leaven", before)).diagnostics[0]
    assert report.fix is not None
    (edit,) = report.fix.edits
    assert before[: edit.span.start] + edit.text + before[edit.span.end :] == after
    assert check(Source("recipe.leaven", after)).recipe is not None
