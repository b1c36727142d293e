"""What the pages say can't be run yet is what the compiler refuses: no more, no less."""

import ast
import re
from pathlib import Path

import pytest

from leaven.language.diagnostics import Severity
from leaven.language.source import Source
from leaven.planning.compiling import compile_source

ROOT = Path(__file__).parents[1]
BASE = """
import "mine.py" as mine
arg lr: float = 1e-3
model     resnet18()
data      digits()
optimizer adamw(lr=lr)
"""
REFUSED = re.compile(r"this version can't run (.+) yet")


def rows() -> dict[str, str]:
    """What is listed as not implemented, each with an example."""
    section = (ROOT / "docs/language.md").read_text(encoding="utf-8").partition("\n## Not implemented yet\n")[2]
    return dict(re.findall(r"^\| (.+) \| `([^`]+)` \|$", section, re.MULTILINE))


def refusals(example: str, folder: Path) -> list[str]:
    """What the compiler says can't be run in a recipe with this example; it has to be right otherwise."""
    (folder / "base.leaven").write_text(BASE, encoding="utf-8")
    own = "from other import Hooks\n\nclass inherited(Hooks):\n    pass\n"
    (folder / "mine.py").write_text(own, encoding="utf-8")
    (folder / "reviews.csv").write_text("review,label\ngood,yes\nbad,no\n", encoding="utf-8")
    source = Source("recipe.leaven", f'extends "base.leaven"\n{example}\n', folder)
    errors = [one for one in compile_source(source).diagnostics if one.severity is Severity.ERROR]
    assert {one.id for one in errors} <= {"not-built"}, errors
    return [found[1] for one in errors if (found := REFUSED.fullmatch(one.headline))]


@pytest.mark.parametrize("example", rows().values(), ids=list(rows()))
def test_what_is_listed_is_refused(example: str, tmp_path: Path) -> None:
    assert refusals(example, tmp_path)


def test_the_recipe_around_the_examples_is_not_refused(tmp_path: Path) -> None:
    assert not refusals("", tmp_path)


def test_what_is_refused_is_listed(tmp_path: Path) -> None:
    told = [words for example in rows().values() for words in refusals(example, tmp_path)]
    for pattern in refused_in_the_sources():
        assert any(re.fullmatch(pattern, words) for words in told), f"no row of docs/language.md is about {pattern}"


def refused_in_the_sources() -> set[str]:
    """What every `NotBuilt(…)` says, as a pattern."""
    found: set[str] = set()
    for file in ROOT.glob("src/leaven/**/*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(func=ast.Name("NotBuilt"), args=[ast.Constant(str(words)), *_]):
                    found.add(re.escape(words))
                case ast.Call(func=ast.Name("NotBuilt"), args=[ast.JoinedStr(parts), *_]):
                    found.add("".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".+" for p in parts))
                case ast.Call(func=ast.Name("NotBuilt")):
                    pytest.fail(f"{file.name}:{call.lineno}: what it says can't be compared with the pages")
    assert found
    return found


def test_the_readme_claims_nothing_else() -> None:
    status = " ".join((ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Status\n")[2].split())
    claim = re.search(r"\. ([^.]+) can be written and checked, but not run yet", status)
    told = re.split(r", | and ", claim[1]) if claim is not None else []
    assert {words.lower() for words in told} <= set(rows())
