"""The cases of this folder's pages: each `before` is formatted to its `after`, with an equal tree and stable."""

import re
from pathlib import Path

import pytest
from tests.format.test_any_recipe import check_promises

from leaven.language.formatter import format_tree
from leaven.language.parser import parse
from leaven.language.source import Source

HERE = Path(__file__).parent
EXAMPLES = sorted(HERE.parents[1].glob("examples/*.leaven"))
CASE = re.compile(r"^## (?P<title>.+)\n(?P<blocks>(?:\n```\w+\n[^`]*```\n)+)", re.M)
BLOCK = re.compile(r"```(\w+)\n([^`]*)```")


def cases() -> list[object]:
    found: list[object] = []
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        matches = list(CASE.finditer(text))
        assert len(matches) == len(re.findall("```(?:before|unchanged)", text)), f"a case of {page.name} can't be read"
        for match in matches:
            blocks = dict(BLOCK.findall(match["blocks"]))
            before, after = blocks.get("before", blocks.get("unchanged")), blocks.get("after", blocks.get("unchanged"))
            found.append(pytest.param(before, after, id=f"{page.stem}: {match['title']}"))
    return found


@pytest.mark.parametrize(("before", "after"), cases())
def test_case(before: str, after: str) -> None:
    parsed = parse(Source("before", before))
    assert not parsed.diagnostics
    assert format_tree(parsed.tree) == after
    assert check_promises(before)
    assert check_promises(after)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_keeps_its_meaning(path: Path) -> None:
    assert check_promises(path.read_text(encoding="utf-8"))
