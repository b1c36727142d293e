import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from leaven.language import syntax
from leaven.language.formatter import format_tree
from leaven.language.layout import MAX_DEPTH, MAX_NESTING
from leaven.language.parser import parse
from leaven.language.source import Source


def tree_of(text: str) -> syntax.Tree:
    parsed = parse(Source("recipe.leaven", text))
    assert not parsed.diagnostics
    return parsed.tree


def formatted(text: str) -> str:
    """The formatted text, after checking that its tree is equal and that it is stable."""
    tree = tree_of(text)
    result = format_tree(tree)
    again = tree_of(result)
    with _deep_comparison():
        assert again == tree
    assert format_tree(again) == result
    return result


@contextmanager
def _deep_comparison() -> Iterator[None]:
    """Comparing two trees recurses deeper than formatting one."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("text", ["", "\n\n", "  \t\n", ";;\n"])
def test_an_empty_recipe_stays_empty(text: str) -> None:
    assert formatted(text) == ""


@pytest.mark.parametrize("text", ["model a", "model a\n\n\n", "\n\nmodel a;", "model a   \n   \n"])
def test_the_text_ends_with_one_line_end(text: str) -> None:
    assert formatted(text) == "model a\n"


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"])
def test_line_ends_are_normalised(line_end: str) -> None:
    text = line_end.join(["model a", "", "data b {", "workers 4", "}", ""])
    assert formatted(text) == "model a\n\ndata b {\n    workers 4\n}\n"


def test_comments_of_a_windows_file_lose_their_carriage_return() -> None:
    assert formatted("# one\r\nmodel a # two\r\n# three\r\n\r\ndata b\r\n") == (
        "# one\nmodel a  # two\n# three\n\ndata b\n"
    )


def test_tabs_become_spaces() -> None:
    assert formatted("data a {\n\tworkers\t4,\tpinned=true\t# tuned\n}\n") == (
        "data a {\n    workers 4, pinned=true  # tuned\n}\n"
    )


def test_tabs_between_name_and_value_align() -> None:
    assert formatted("model\ta\noptimizer\tb\n") == "model     a\noptimizer b\n"


def test_a_line_may_be_a_hundred_columns_wide_and_no_wider() -> None:
    fits = f'model f("{"x" * 88}")\n'
    assert len(fits.rstrip()) == 99
    assert formatted(fits) == fits
    wider = f'model f("{"x" * 89}") {{\n    head 1\n}}\n'
    assert formatted(wider).splitlines()[:3] == ["model f(", f'    "{"x" * 89}",', ") {"]


def test_a_trailing_comment_does_not_break_its_line() -> None:
    text = f'model f("{"x" * 80}")  # {"why " * 20}'.rstrip() + "\n"
    assert formatted(text) == text


def test_a_very_long_name_does_not_move_its_neighbours() -> None:
    text = f"model  a\noptimizer b\n{'x' * 1000} c\n"
    assert formatted(text) == f"model     a\noptimizer b\n{'x' * 1000} c\n"


def test_a_very_long_line_does_not_move_the_comments_of_its_neighbours() -> None:
    long = f'output "{"x" * 1000}"'
    assert formatted(f"model a   # one\ndata bcd # two\n{long} # three\n") == (
        f"model a   # one\ndata bcd  # two\n{long}  # three\n"
    )


def test_a_recipe_with_syntax_errors_is_rejected() -> None:
    with pytest.raises(ValueError, match="syntax errors"):
        format_tree(parse(Source("recipe.leaven", "model = a")).tree)


OPERATORS = MAX_DEPTH - 1


@pytest.mark.parametrize(
    "text",
    [
        "model " + "f(" * MAX_NESTING + "x" + ")" * MAX_NESTING,
        "model " + "f(a=" * MAX_NESTING + "x" + ")" * MAX_NESTING,
        "model " + "[" * MAX_NESTING + "x" + "]" * MAX_NESTING,
        "model " + "a -> (" * MAX_NESTING + "x" + ")" * MAX_NESTING,
        "model " + "f( # why\n" * MAX_NESTING + "x" + ")" * MAX_NESTING,
        "model " + "a + b * -f(" * (OPERATORS // 4) + "x" + ")" * (OPERATORS // 4),
        "model " + "a - (" * MAX_NESTING + "x" + ")" * MAX_NESTING,
        "model " + "a + " * OPERATORS + "x",
        "model " + "-" * OPERATORS + "x",
        "a {" * MAX_NESTING + "x" + "}" * MAX_NESTING,
        "a {\n" * MAX_NESTING + "x" + "}" * MAX_NESTING,
    ],
    ids=lambda text: text[:15],
)
def test_whatever_can_be_parsed_can_be_formatted(text: str) -> None:
    formatted(text)


def seconds(text: str) -> float:
    """How long a text takes to format. Garbage collection is off: its cost depends on everything in memory."""
    tree = tree_of(text)
    gc.disable()
    try:
        start = time.process_time()
        format_tree(tree)
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("opening", "repeated", "closing"),
    [
        ("", 'phase "head", epochs=10 { freeze all - head }  # first\noptimizer  adamw(lr=1e-3)\n', ""),
        ("model " + "[" * 50, "f(1), ", "]" * 50),
        ("model a", ", b=f(1)", ""),
        ("model a", " -> f(1)", ""),
        ("data a {\n" * 50, "workers 4  # why\n", "}" * 50),
    ],
    ids=["statements", "items", "arguments", "stages", "statements in blocks"],
)
def test_time_is_linear(opening: str, repeated: str, closing: str) -> None:
    little = min(seconds(opening + repeated * 200 + closing) for _ in range(3))
    much = min(seconds(opening + repeated * 2000 + closing) for _ in range(2))
    assert much < 25 * little


@pytest.mark.parametrize("operand", ["-(-1)", "-(-x)", "-(-(1 + 2))", "-(-f(1))"])
def test_signs_without_brackets_stay_below_the_limit_of_depth(operand: str) -> None:
    parsed = parse(Source("recipe.leaven", f"train clip={f'{operand} * 2 / ' * 80}1\n"))
    assert not parsed.diagnostics
    assert not parse(Source("recipe.leaven", format_tree(parsed.tree))).diagnostics
