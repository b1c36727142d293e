"""Any text can be printed to a terminal, and be part of a page, without doing anything there."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaven.terminal.visible import as_code, in_markdown, visible, visible_lines, visible_output

ODD = [
    *("\x1b[2J\x1b]0;title\x07", "\x9b31m", "a\rb", "\x08\x08", "\x07", "a\u202egnp.exe", "\u2066x\u2069", "\u2028"),
    *("\x00", "\x7f", "\ufeff", "\U000e0041", "\ud800"),
]
COMMANDS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff\ud800-\udfff]"
)


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_what_commands_a_terminal_becomes_a_symbol(text: str) -> None:
    assert not COMMANDS.search(visible(text))
    assert visible(text) != text


@given(st.text())
def test_no_text_commands_a_terminal(text: str) -> None:
    assert not COMMANDS.search(visible_lines(text))
    assert "\n" not in visible(text)
    assert visible_lines(text).count("\n") == text.count("\n")


@pytest.mark.parametrize("text", ["dog", "größer — 東京", "it's 100 %, a.b (c)", "two words"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == in_markdown(text) == text
    assert as_code(text) == f"`{text}`"


@given(st.text())
def test_nothing_in_markdown_is_markup(text: str) -> None:
    shown = in_markdown(text)
    assert not set(shown) & {"<", ">", "\n"}
    assert not re.search(r"(?<!\\)(\\\\)*[`*\[\]|]", shown)


@given(st.text("`a<", min_size=1))
def test_code_ends_where_it_ends(text: str) -> None:
    shown = as_code(text)
    fence = re.match("`+", shown)
    assert fence is not None
    assert shown.count(fence[0]) == 2
    assert re.fullmatch(rf"{fence[0]} ?{re.escape(text)} ?{fence[0]}", shown)


def test_names_with_underscores_are_readable() -> None:
    assert in_markdown("golden_retriever") == "golden_retriever"
    assert (
        in_markdown("_a_ <script>alert(1)</script> [x](y)") == r"\_a\_ &lt;script&gt;alert(1)&lt;/script&gt; \[x\](y)"
    )


def test_what_a_program_printed_keeps_the_marks_that_redraw_bars() -> None:
    assert visible_output(" 50%\r100%\n\ta\x1b[2J\x08") == " 50%\r100%\n\ta␛[2J␈"
