"""Plans of run folders: older formats are read, a newer one is refused in words that help. Goldens read back equal."""

import json
from pathlib import Path

import pytest

from leaven.plan.plan_json import FORMAT, from_json, to_json
from leaven.planning.explain import explain
from leaven.program.emit import emit

OLDER = sorted(Path(__file__).parent.glob("format_*/*.json"))


@pytest.mark.parametrize("file", OLDER, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_plan_of_an_older_format_is_read(file: Path) -> None:
    plan = from_json(file.read_text(encoding="utf-8"))
    assert plan.name == "recipe"
    assert from_json(to_json(plan)) == plan
    assert explain(plan).startswith("recipe: ")
    compile(emit(plan), "program.py", "exec")


def test_what_format_1_told_by_spelling_is_in_fields() -> None:
    plans = {file.stem: from_json(file.read_text(encoding="utf-8")) for file in OLDER}
    texts, images = plans["text_reviews"], plans["smaller_net"]
    assert (texts.data.eval.is_tokenizing, texts.data.table, texts.model.by) == (True, "csv", "transformers")
    assert (images.data.eval.is_tokenizing, images.data.table, images.model.by) == (False, "", "components")
    assert texts.task.outputs == "num_classes"


def test_a_plan_of_a_newer_format_is_refused() -> None:
    newer = {"format": FORMAT + 1, **json.loads(OLDER[0].read_text(encoding="utf-8"))}
    with pytest.raises(ValueError, match=f"the plan has format {FORMAT + 1}.* reads formats 1 to {FORMAT}"):
        from_json(json.dumps(newer))
