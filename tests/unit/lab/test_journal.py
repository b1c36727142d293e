"""A journal survives crashes, can be replayed, and is a page that runs nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from leaven.bundle import Bundle
from leaven.lab import Journal


def test_a_replay_gives_the_same_answers(colours_file: Path, photo: str) -> None:
    journal = Journal("journal.jsonl")
    journal.predictions(colours_file, photo, noise=0.3, rotate=10)
    journal.vary(colours_file, photo, "hue", steps=5)
    flip = journal.smallest_flip(colours_file, photo, ["hue"])
    assert flip is not None
    journal.smallest_flip(colours_file, photo, ["pad"])
    replayed = list(Journal("journal.jsonl").replay())
    assert [one.is_same for one in replayed] == [True] * 4
    assert repr(journal) == "<Journal journal.jsonl: 4 questions>"


def test_another_answer_is_noticed(colours_file: Path, photo: str) -> None:
    journal = Journal()
    journal.predictions(colours_file, photo, pad=1)
    Image.new("RGB", (40, 40), "lime").save(photo)
    (replayed,) = journal.replay()
    assert not replayed.is_same
    Path(photo).unlink()
    (replayed,) = journal.replay()
    assert "there is no such file" in replayed.problem


def test_a_line_that_was_cut_off_is_ignored(colours: Bundle, photo: str) -> None:
    journal = Journal()
    journal.predictions(colours, photo, pad=1)
    whole = journal.file.read_bytes()
    for end in (1, len(whole) // 2, len(whole) - 2):
        journal.file.write_bytes(whole + whole[:end])
        assert len(journal.entries()) == 1
        journal.predictions(colours, photo, pad=2)
        assert [one.given.edits[0].arguments for one in journal.entries()] == [(1,), (2,)]


def test_lines_of_others_are_no_questions(colours: Bundle, photo: str) -> None:
    journal = Journal()
    journal.predictions(colours, photo, pad=1)
    good = json.loads(journal.file.read_text())
    lines = [
        "[]", "3", "{}", '{"call": 3}', "[" * 100_000, json.dumps({**good, "models": [1]}),
        json.dumps({**good, "edits": [{"edit": "run"}]}), json.dumps({**good, "input": None}),
    ]  # fmt: skip
    journal.file.write_text("\n".join(lines) + "\n")
    assert journal.entries() == []
    for change in ({"call": "eval"}, {"options": {"before": {}}}, {"options": {"k": "x"}}, {"models": []}):
        journal.file.write_text(json.dumps({**good, **change}) + "\n")
        (replayed,) = journal.replay()
        assert replayed.problem


def test_an_image_in_memory_is_kept_beside_the_journal(colours: Bundle) -> None:
    journal = Journal("notes/journal.jsonl") if Path("notes").exists() else Journal(Path("journal.jsonl").absolute())
    image = Image.new("RGB", (30, 30), "red")
    journal.predictions(colours, image, pad=1)
    journal.predictions(colours, image, pad=2)
    assert len(list(journal.file.parent.glob("journal_images/*.png"))) == 1
    assert [one.is_same for one in journal.replay()] == [True, True]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_summary_shows_names_and_runs_nothing(make_colours: Callable[..., Path]) -> None:
    evil = "<img src=x onerror=alert(1)>"
    file = f"{evil.replace('/', '')}.png"
    Image.new("RGB", (20, 20), "red").save(file)
    journal = Journal()
    answers = journal.predictions(make_colours("c.bundle", evil, "b`c`", "c"), file, pad=1)
    assert answers.each[0].after.answer == evil
    page, text = journal.as_html(), journal.as_markdown()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img" not in "".join(text.split("`")[::2]), "outside of code"
    assert "Journal: 1 question" in page
    assert "padded by 1 px" in page
