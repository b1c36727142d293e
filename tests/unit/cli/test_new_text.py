"""`leaven new` for a table of texts."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests import tiny_bert

from leaven.cli.main import leaven

pytest.importorskip("transformers")


def new(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    answer = CliRunner().invoke(leaven, ["new", *words])
    return answer.exit_code, answer.output


def test_a_table_of_texts_becomes_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_bert.write_csv(tmp_path / "reviews.csv")
    code, said = new(tmp_path, monkeypatch, "reviews.csv")
    assert code == 0, said
    assert said.startswith("reviews.csv: 60 rows; texts in `sentence`, 2 classes in `label`\n")
    recipe = (tmp_path / "reviews.leaven").read_text()
    assert 'data  csv("reviews.csv", text="sentence", label="label") { tokenize max_length=128 }' in recipe


def test_pairs_are_found_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"premise": "a man sleeps", "hypothesis": text, "gold": label} for text, label in tiny_bert.reviews(20)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, said = new(tmp_path, monkeypatch, "pairs.jsonl", "-o", "-")
    assert code == 0, said
    assert 'text=["premise", "hypothesis"], label="gold"' in said


def test_a_table_without_labels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("id,words\n1,a text\n2,another one\n3,the last\n")
    code, said = new(tmp_path, monkeypatch, "t.csv")
    assert code == 2
    assert "it is not clear which columns of t.csv have texts and labels: id, words" in said
