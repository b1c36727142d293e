"""The formatter keeps the tree and the comments of every recipe, and is stable."""

import os
import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.format.recipe_text import RecipeText

from leaven.language.formatter import format_tree
from leaven.language.parser import parse
from leaven.language.source import Source

CASES = int(os.environ.get("LEAVEN_FORMAT_CASES", "300"))


def comments_of(text: str) -> list[str]:
    return [span.text.lstrip("#! ").rstrip() for span in parse(Source("recipe", text)).tree.comments]


def check_promises(text: str) -> bool:
    """Check a recipe, unless it has a syntax error."""
    before = parse(Source("before", text))
    if before.diagnostics:
        return False
    formatted = format_tree(before.tree)
    after = parse(Source("after", formatted))
    assert not after.diagnostics, formatted
    assert after.tree == before.tree, formatted
    assert comments_of(formatted) == comments_of(text), formatted
    assert format_tree(after.tree) == formatted
    check_whitespace(formatted)
    return True


def check_whitespace(formatted: str) -> None:
    assert not re.search(r"[ \t]\n", formatted), "a line ends with spaces"
    assert "\n\n\n" not in formatted, "two blank lines in a row"
    assert not formatted.startswith("\n"), "a blank line at the start"
    assert not formatted.endswith("\n\n"), "a blank line at the end"
    assert not formatted or formatted.endswith("\n"), "no line end at the end"
    assert "{\n\n" not in formatted, "a blank line after an opening brace"
    assert not re.search(r"\n\n *}", formatted), "a blank line before a closing brace"
    assert "\r" not in formatted
    assert "\t" not in formatted


@given(st.data())
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_recipe_keeps_its_meaning_and_its_comments_and_is_stable(data: st.DataObject) -> None:
    text = RecipeText(lambda options: data.draw(st.sampled_from(options))).write()
    assume(check_promises(text))
