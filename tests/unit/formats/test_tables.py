"""The check and the runtime open a table alike."""

from pathlib import Path

import pytest

from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime.data.datasets import table
from leaven.tasks.classification import Label

ROWS = "file{0}kind\n1.jpg{0}ant\n2.jpg{0}bee \n3.jpg{0}bee\n"


@pytest.mark.parametrize(
    ("tables", "named", "more"),
    [
        ({"t.csv": ROWS.format(",")}, "t.csv", {}),
        ({"t.csv": "\ufeff" + ROWS.format(",")}, "t.csv", {}),
        ({"t.tsv": ROWS.format("\t")}, "t.tsv", {}),
        ({"t.csv": ROWS.format(";")}, "t.csv", {"separator": ";"}),
        ({"t/training.tsv": ROWS.format("\t"), "t/valid.csv": ROWS.format(",")}, "t", {}),
    ],
    ids=["plain", "byte order mark", "tabs", "semicolons", "parts"],
)
def test_the_check_and_the_runtime_agree(
    tmp_path: Path, tables: dict[str, str], named: str, more: dict[str, str]
) -> None:
    for name, text in tables.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for number in (1, 2, 3):
        (tmp_path / f"{number}.jpg").touch()
    words = "".join(f', {name}="{value}"' for name, value in more.items())
    text = f'model resnet18()\ndata csv("{named}", image="file", label="kind", root="."{words})\n'
    checked = check(Source("r.leaven", text, tmp_path))
    assert checked.recipe is not None, checked.diagnostics
    items = table(tmp_path / named, image="file", target=Label("kind"), root=tmp_path, **more)
    assert items.target.names == ("ant", "bee")
    assert checked.recipe.data.outputs == 2
