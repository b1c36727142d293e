"""How diagnostics look for a person, an editor and a script."""

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaven.language.diagnostics import Diagnostic, Severity, Spot, error
from leaven.language.fixes import Edit, Fix
from leaven.language.report import LINE_WIDTH, render_concise, render_full, summary, to_json
from leaven.language.source import Source, Span
from leaven.terminal.colors import wants_color

DOGS = Source("dogs.leaven", "\n" * 11 + "    freeze all - layre4\n")


def spot(source: Source, piece: str, label: str = "") -> Spot:
    start = source.text.index(piece)
    return Spot(source.span(start, start + len(piece)), label)


def rendered(text: str, piece: str, label: str = "here") -> str:
    """The snippet of a report about a piece of text, without headline and location."""
    source = Source("a.leaven", text)
    return "\n".join(render_full(error("odd", "odd", spot(source, piece, label))).split("\n")[3:])


def misspelt_layer() -> Diagnostic:
    place = spot(DOGS, "layre4", "no layer matches")
    return error(
        "unknown-layer",
        "resnet18 has no layer named `layre4`",
        place,
        fix=Fix("did you mean ", (Edit(place.span, "layer4"),), place.span, "? (`leaven inspect` lists them)"),
    )


# -- the full report


def test_full_report() -> None:
    assert render_full(misspelt_layer()) == (
        "error[unknown-layer]: resnet18 has no layer named `layre4`\n"
        "  --> dogs.leaven:12:18\n"
        "   |\n"
        "12 |     freeze all - layre4\n"
        "   |                  ^^^^^^ no layer matches\n"
        "help: did you mean `layer4`? (`leaven inspect` lists them)"
    )


def test_a_report_without_a_spot_has_no_snippet() -> None:
    report = error("no-recipe", "there is no recipe", notes=["a recipe ends in .leaven"], fix="run `leaven new`")
    assert render_full(report) == (
        "error[no-recipe]: there is no recipe\nnote: a recipe ends in .leaven\nhelp: run `leaven new`"
    )


def test_notes_come_before_help_and_keep_their_lines() -> None:
    report = error("odd", "odd", notes=["first", "second,\nin two lines"], fix="fix it:\n  like this")
    assert render_full(report) == (
        "error[odd]: odd\nnote: first\nnote: second,\n      in two lines\nhelp: fix it:\n        like this"
    )


def test_a_spot_without_label_has_only_carets() -> None:
    assert rendered("model resnet18", "resnet18", "") == "1 | model resnet18\n  |       ^^^^^^^^"


def test_warnings_and_notes_show_their_severity() -> None:
    place = Spot(DOGS.span(0, 0))
    assert render_full(error("odd", "odd", place, severity=Severity.WARNING)).startswith("warning[odd]: odd\n")
    assert render_full(error("odd", "odd", place, severity=Severity.NOTE)).startswith("note[odd]: odd\n")


# -- several spots

TWO_PHASES = Source(
    "a.leaven",
    'model resnet18\ndata folder("x")\ntrain epochs=3\n\n\n\n\n\n'
    'phase "one", epochs=2\nphase "two", epochs=2, epochs=4\n',
)


def test_spots_of_one_file_share_a_snippet_in_line_order() -> None:
    report = error(
        "phases-and-epochs",
        "epochs are given twice",
        spot(TWO_PHASES, "train epochs=3", "for all"),
        spot(TWO_PHASES, "model", "of this"),
        spot(TWO_PHASES, 'phase "one"', "and here"),
        spot(TWO_PHASES, 'phase "two"', "and here"),
    )
    assert render_full(report) == (
        "error[phases-and-epochs]: epochs are given twice\n"
        "  --> a.leaven:3:1\n"
        "   |\n"
        " 1 | model resnet18\n"
        "   | ----- of this\n"
        ' 2 | data folder("x")\n'
        " 3 | train epochs=3\n"
        "   | ^^^^^^^^^^^^^^ for all\n"
        "...\n"
        ' 9 | phase "one", epochs=2\n'
        "   | ----------- and here\n"
        '10 | phase "two", epochs=2, epochs=4\n'
        "   | ----------- and here"
    )


def test_spots_on_one_line_are_marked_below_each_other_the_primary_first() -> None:
    source = Source("a.leaven", "train epochs=2, epochs=4")
    report = error("repeated", "said twice", spot(source, "epochs=4", "again"), spot(source, "epochs=2", "first"))
    assert render_full(report) == (
        "error[repeated]: said twice\n"
        " --> a.leaven:1:17\n"
        "  |\n"
        "1 | train epochs=2, epochs=4\n"
        "  |                 ^^^^^^^^ again\n"
        "  |       -------- first"
    )


def test_another_file_gets_its_own_section() -> None:
    base = Source("base.leaven", '# base\n\nextends "dogs.leaven"\n')
    report = error("cycle", "recipes extend each other", spot(DOGS, "freeze", "a"), spot(base, "extends", "b"))
    assert render_full(report) == (
        "error[cycle]: recipes extend each other\n"
        "  --> dogs.leaven:12:5\n"
        "   |\n"
        "12 |     freeze all - layre4\n"
        "   |     ^^^^^^ a\n"
        "  ::: base.leaven:3:1\n"
        "   |\n"
        ' 3 | extends "dogs.leaven"\n'
        "   | ------- b"
    )


# -- where a span can be


def test_an_empty_span_gets_one_caret() -> None:
    assert rendered("train 3", "") == "1 | train 3\n  | ^ here"


def test_a_span_over_lines_marks_the_first_to_its_end() -> None:
    assert rendered("model conv(\n  32)\n", "conv(\n  32)") == "1 | model conv(\n  |       ^^^^^ here"


def test_the_end_of_file_after_a_last_newline_is_a_line_of_its_own() -> None:
    source = Source("a.leaven", "model x\n")
    assert render_full(error("odd", "odd", Spot(source.span(8, 8), "ends"))) == (
        "error[odd]: odd\n --> a.leaven:2:1\n  |\n2 |\n  | ^ ends"
    )


def test_the_end_of_file_without_newline_is_after_the_last_character() -> None:
    source = Source("a.leaven", "model x")
    assert render_full(error("odd", "odd", Spot(source.span(7, 99), "ends"))) == (
        "error[odd]: odd\n --> a.leaven:1:8\n  |\n1 | model x\n  |        ^ ends"
    )


def test_the_empty_file() -> None:
    assert render_full(error("odd", "odd", Spot(Source("a.leaven", "").span(0, 0)))) == (
        "error[odd]: odd\n --> a.leaven:1:1\n  |\n1 |\n  | ^"
    )


def test_windows_line_ends_are_not_shown() -> None:
    assert rendered("model x\r\ntrain 3\r\n", "3\r\n") == "2 | train 3\n  |       ^ here"


# -- what characters look like


def test_tabs_are_four_columns() -> None:
    assert rendered("\ttrain\tepochs", "epochs") == "1 |     train    epochs\n  |              ^^^^^^ here"


def test_wide_characters_take_two_carets() -> None:
    assert rendered('data folder("写真") x', "写真") == '1 | data folder("写真") x\n  |              ^^^^ here'
    assert rendered('data folder("写真") x', "x") == '1 | data folder("写真") x\n  |                     ^ here'


def test_combining_characters_take_no_column() -> None:
    assert rendered("# cafe\u0301\u0300 x", "x") == "1 | # cafe\u0301\u0300 x\n  |        ^ here"


def test_a_lone_accent_is_marked_under_its_letter() -> None:
    assert rendered("cafe\u0301", "\u0301") == "1 | cafe\u0301\n  |    ^ here"


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    source = Source("a\x1b[2J.leaven", "model \x1b[31m\x07\x7f\x9b\u202ex\ud800")
    report = error("odd", "odd \x1b[0m\n", spot(source, "x", "\x1b"), notes=["\x1b]0;title\x07"], fix="\x1b[1A")
    for text in (render_full(report), render_concise(report)):
        assert text.replace("\n", "").isprintable()
        text.encode("utf-8")
    assert "1 | model ␛[31m␇␡<U+009B><U+202E>x<U+D800>\n" in render_full(report)


def test_carets_stay_aligned_after_control_characters() -> None:
    assert rendered("a\x1b\u202eb", "b") == "1 | a␛<U+202E>b\n  |           ^ here"


# -- long lines


def test_a_long_line_is_cut_around_the_caret() -> None:
    lines = rendered("a" * 1000 + "BAD" + "z" * 1000, "BAD").split("\n")
    assert lines[0] == "1 | …" + "a" * 77 + "BAD" + "z" * 78 + "…"
    assert lines[1] == "  |  " + " " * 77 + "^^^ here"
    assert len(lines[0]) == len("1 | ") + LINE_WIDTH


def test_a_long_line_is_cut_on_one_side_where_the_caret_is_near_the_other() -> None:
    assert rendered("BAD" + "z" * 1000, "BAD").split("\n")[0] == "1 | BAD" + "z" * 155 + "…"
    assert rendered("a" * 1000 + "BAD", "BAD").split("\n")[0] == "1 | …" + "a" * 155 + "BAD"


def test_the_start_of_a_very_long_span_is_visible() -> None:
    shown, carets = rendered("model " + "x" * 1000, "x" * 1000).split("\n")
    assert shown.startswith("1 | model xxx")
    assert carets == "  |       " + "^" * (len(shown) - len("1 | model …")) + " here"


def test_distant_spots_of_a_long_line_are_both_shown() -> None:
    source = Source("a.leaven", "FIRST" + "-" * 1000 + "SECOND")
    text = render_full(error("odd", "odd", spot(source, "SECOND", "this"), spot(source, "FIRST", "that")))
    lines = text.split("\n")[3:]
    assert [line[:9] for line in lines[::2]] == ["1 | …----", "1 | FIRST"]
    assert lines[0].endswith("SECOND")
    assert lines[1].index("^^^^^^ this") == lines[0].index("SECOND")
    assert lines[3] == "  | ----- that"


@pytest.mark.parametrize("unit", ["abcd ", "写真", "e\u0301", "\x1b", "\t", "\u202e"])
def test_ten_megabytes_on_one_line_render_at_once(unit: str) -> None:
    source = Source("a.leaven", unit * (10_000_000 // len(unit)))
    middle = len(source.text) // 2
    began = time.process_time()
    text = render_full(error("odd", f"`{source.text}` is odd", Spot(source.span(middle, middle + 9), "here")))
    assert time.process_time() - began < 2
    assert len(text) < 5000


# -- one line, and JSON


def test_concise_report() -> None:
    assert render_concise(misspelt_layer()) == (
        "dogs.leaven:12:18: error[unknown-layer]: resnet18 has no layer named `layre4`"
    )
    assert render_concise(error("no-recipe", "there is no recipe")) == "error[no-recipe]: there is no recipe"


def test_json_report() -> None:
    place = {
        "file": "dogs.leaven",
        "start": {"line": 12, "column": 18, "offset": 28},
        "end": {"line": 12, "column": 24, "offset": 34},
    }
    assert to_json(misspelt_layer()) == {
        "id": "unknown-layer",
        "severity": "error",
        "headline": "resnet18 has no layer named `layre4`",
        "file": "dogs.leaven",
        "spots": [{**place, "label": "no layer matches"}],
        "notes": [],
        "help": "did you mean `layer4`? (`leaven inspect` lists them)",
        "edits": [{**place, "text": "layer4", "is_option": False}],
    }


def test_json_without_place_and_fix() -> None:
    data = to_json(error("no-recipe", "there is no recipe", notes=["why"]))
    assert (data["file"], data["spots"], data["help"], data["edits"]) == (None, [], None, [])
    assert data["notes"] == ["why"]


def test_summary_counts() -> None:
    wrong, doubtful = error("a", "a"), error("b", "b", severity=Severity.WARNING)
    assert summary([]) == "no errors"
    assert summary([wrong]) == "1 error"
    assert summary([doubtful, wrong, wrong]) == "2 errors, 1 warning"
    assert summary([error("c", "c", severity=Severity.NOTE)] * 2) == "2 notes"


# -- colour


def test_colour_changes_no_letter() -> None:
    colored = render_full(misspelt_layer(), color=True)
    plain = render_full(misspelt_layer())
    assert "\x1b" not in plain
    for code in ("1", "1;31", "34", "1;32", "0"):
        assert f"\x1b[{code}m" in colored
        colored = colored.replace(f"\x1b[{code}m", "")
    assert colored == plain


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "on_terminal", "on_file"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_who_wants_colour(
    environment: dict[str, str], on_terminal: bool, on_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_color(Terminal()) is on_terminal
    assert wants_color(io.StringIO()) is on_file


# -- anything at all

ANY_TEXT = st.text(st.characters() | st.sampled_from("\t\r\n\x1b日\u0301 a\ud800"), max_size=400)


@given(st.data())
def test_any_span_of_any_text_renders(data: st.DataObject) -> None:
    source = Source(data.draw(ANY_TEXT), data.draw(ANY_TEXT) * data.draw(st.sampled_from([1, 50])))
    offsets = st.integers(-2, len(source.text) + 2)
    spans = st.builds(Span, st.just(source), offsets, offsets)
    spots = data.draw(st.lists(st.builds(Spot, spans, ANY_TEXT), max_size=4))
    report = error("any", data.draw(ANY_TEXT), *spots, notes=[data.draw(ANY_TEXT)], fix=data.draw(ANY_TEXT))
    text = render_full(report)
    assert "\x1b" not in text
    assert "\x1b" not in render_concise(report)
    text.encode("utf-8")
    assert sum(line.startswith("...") for line in text.split("\n")) < max(1, len(spots))
    assert render_full(report, color=True)
    assert json.loads(json.dumps(to_json(report)))["id"] == "any"


@given(st.text(st.sampled_from("ab \t日\u0301\x1b\u202e"), min_size=1, max_size=60), st.data())
def test_carets_are_under_what_they_mark(line: str, data: st.DataObject) -> None:
    """Marking each half of a line: the carets of the second start where those of the first end."""
    middle = data.draw(st.integers(1, len(line)))
    source = Source("a", line)
    report = error("any", "any", Spot(source.span(0, middle)), Spot(source.span(middle, len(line))))
    rows = render_full(report).split("\n")[4:]
    carets, dashes = rows[0].count("^"), rows[1].count("-")
    indent = len(rows[1]) - dashes - len("  | ")
    assert indent in (carets, carets - 1)
