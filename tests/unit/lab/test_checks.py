"""Checks are read with reports at their place, and carried out on a model."""

from pathlib import Path

import pytest

from leaven.bundle import Bundle
from leaven.lab import predictions
from leaven.lab.checks import BadChecks, Check, carry_out, checks_of, parse, read_checks, save_check
from leaven.language.source import Source
from leaven.runtime.failures import Failure


def checks(text: str) -> tuple[Check, ...]:
    return parse(Source("my.checks", text))


def test_a_sentence_is_read_as_it_is_written() -> None:
    text = 'expect "a \\"b\\".png" padded by 8 px, with noise 0.1 and seed 3, in grey is "cat"'
    (check,) = checks(f"# what it knows\n\n{text}  # found in May\n")
    assert check.words == text
    assert check.names == ('a "b".png',)
    assert [one.name for one in check.edits] == ["pad", "noise", "grey"]
    assert check.place == "my.checks:3"


@pytest.mark.parametrize(
    "text",
    [
        'expect "x.png" is 34.2',
        'expect "x.png" is not "cat"',
        'expect "I like it." / "I hate it." negated is "contradiction"',
        'expect "it is good" with "is" replaced by "\\"is\\"", without word 3 is "bad"',
    ],
)
def test_forms_of_a_check(text: str) -> None:
    (check,) = checks(text)
    assert checks(check.words) == (check,)


@pytest.mark.parametrize(
    ("line", "headline", "marked"),
    [
        ('exepct "x" is "y"', "a check begins with `expect`", "exepct"),
        ("expect x is y", "expected the input in quotes", "x"),
        ('expect "x" paded by 8 px is "y"', "expected an edit or `is`", "paded"),
        ('expect "x" padded by 8 px in grey is "y"', "expected a comma or `is` after an edit", "in"),
        ('expect "" padded by 1.5 px is "y"', "`pad`: pixels must be a whole number from 0 to 4000, not 1.5", "padded"),
        ('expect "x" is y', "expected the answer: a text in quotes, or a number", "y"),
        ('expect "x" is "y" or "z"', "expected the end of the line after the answer", "or"),
        ('expect "x" is', "expected the answer: a text in quotes, or a number", ""),
        ('expect "\\q" is "y"', '"\\q" has an unknown escape', '"\\q"'),
    ],
)  # fmt: skip
def test_a_fault_is_reported_at_its_place(line: str, headline: str, marked: str) -> None:
    with pytest.raises(BadChecks) as found:
        checks(f'expect "a" is "b"\n{line}\n')
    (fault,) = found.value.diagnostics
    assert fault.headline == headline
    assert fault.spots[0].span.line == 2
    assert fault.spots[0].span.text.strip() == marked


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(BadChecks) as found:
        checks('expect\n\nexpect "a" is "b"\nnonsense\n')
    assert len(found.value.diagnostics) == 2
    assert "my.checks can't be read as checks (2 errors)" in str(found.value)
    assert "my.checks:4:1" in str(found.value)


def test_checks_hold_or_fail_with_the_answer(colours: Bundle, photo: str, tmp_path: Path) -> None:
    (tmp_path / "colours.checks").write_text(
        f'expect "{photo}" is "red"\n'
        f'expect "{photo}" with hue -0.35 is "red"\n'
        f'expect "{photo}" with hue -0.35 is not "red"\n'
        'expect "missing.png" is "red"\n'
        f'expect "{photo}" negated is "red"\n'
    )
    found = list(carry_out(read_checks(tmp_path / "colours.checks"), colours))
    assert [one.holds for one in found] == [True, False, True, False, False]
    assert found[1].words.endswith('is "red"; the answer is blue')
    assert "there is no such file" in found[3].words
    assert "`negate` is for texts" in found[4].words


def test_images_are_found_from_the_folder_of_the_checks(
    colours: Bundle, photo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some").mkdir()
    save_check(predictions(colours, photo, pad=2), Path("some/my.checks"))
    assert Path("some/my.checks").read_text() == 'expect "../photo.png" padded by 2 px is "red"\n'
    monkeypatch.chdir("/")
    assert [one.holds for one in carry_out(read_checks(tmp_path / "some/my.checks"), colours)] == [True]


def test_a_finding_is_added_once(colours: Bundle, photo: str) -> None:
    file = Path("my.checks")
    file.write_text('expect "photo.png" is "red"')  # without a newline at its end
    for _ in range(2):
        save_check(predictions(colours, photo, hue=-0.35), file)
    assert file.read_text() == 'expect "photo.png" is "red"\nexpect "photo.png" with hue -0.35 is "red"\n'


def test_a_file_of_checks_that_is_asked_for_must_be_there(colours: Bundle) -> None:
    assert checks_of(colours) == ()
    with pytest.raises(Failure, match="there is no such file"):
        checks_of(colours, Path("other.checks"))
