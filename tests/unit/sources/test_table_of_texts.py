"""Tables of texts: which rows are kept, and what is said of those that can't be used."""

from pathlib import Path

import pytest

from leaven.formats.finding import BadSource
from leaven.formats.tables import formats
from leaven.sources.table import Table
from leaven.tasks.classification.target import Label

LINES = {
    "csv": (b"text,label\n", b"%s,%s\n"),
    "jsonl": (b"", b'{"text": "%s", "label": "%s"}\n'),
}
ROWS = [(b"fine", b"good"), (b"caf\xe9", b"bad"), (b"", b"good"), (b"long", b""), (b"dull", b"bad")]


def table(folder: Path, ending: str, **settings: str) -> Table:
    file = folder / f"t.{ending}"
    if ending == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        texts = arrow.array([text for text, _ in ROWS], type=arrow.binary()).view(arrow.string())
        labels = [label.decode() for _, label in ROWS]
        parquet.write_table(arrow.table({"text": texts, "label": labels}), file)
    else:
        head, line = LINES[ending]
        file.write_bytes(head + b"".join(line % row for row in ROWS))
    return Table(file, file.name, Label("label"), text="text", **settings)  # type: ignore[arg-type]


ENDINGS = ("csv", "jsonl", "parquet")
PLACES = {"csv": "line 3", "jsonl": "line 2", "parquet": "row 2"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_text_in_another_encoding_is_found_by_its_line(tmp_path: Path, ending: str) -> None:
    source = table(tmp_path, ending)
    (found,) = source.look().findings
    assert (found.id, found.fact) == ("not-utf8", f"{PLACES[ending]} of `t.{ending}` is not UTF-8 text")
    with pytest.raises(BadSource, match=f"{PLACES[ending]} of"):
        source.open()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_can_not_be_used_is_skipped_and_counted(tmp_path: Path, ending: str) -> None:
    source = table(tmp_path, ending, on_bad_file="skip")
    looked, samples = source.look(), source.open()
    assert [(found.id, found.is_error) for found in looked.findings] == [
        ("not-utf8", False),
        ("empty-text", False),
        ("wrong-label", False),
    ]
    assert looked.counts == {"": 4}
    assert [samples.target.plain(value) for value in samples.values] == ["good", "bad", "good", "bad"]
    assert samples.texts is not None
    assert samples.texts[0] == "fine"
    assert samples.texts[3] == "dull"


def test_every_format_of_tables_is_tried() -> None:
    assert set(ENDINGS) == {each.SOURCE for each in formats().values()}


def test_an_empty_list_of_labels_is_not_skipped(tmp_path: Path) -> None:
    from leaven.tasks.multilabel.target import Labels

    (tmp_path / "t.csv").write_text("text,topics\none,a\ntwo,b\nthree,\n")
    source = Table(tmp_path / "t.csv", "t.csv", Labels("topics"), text="text", on_bad_file="skip")
    assert len(source.open().values) == 3
