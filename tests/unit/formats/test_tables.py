"""The check and the runtime open a table alike."""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from leaven.catalog import own
from leaven.formats.tables import formats
from leaven.language.report import render_concise
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime.data.datasets import table
from leaven.runtime.failures import BadFile, Failure
from leaven.tasks.classification import Label
from leaven.tasks.regression import Numbers

JSON = '{"file": "1.jpg", "kind": "ant"}\n{"file": "2.jpg", "kind": "bee"}\n\n{"file": "3.jpg", "kind": "bee"}\n'
HEADLESS = "ant{0}1.jpg{0}red\nbee{0}2.jpg{0}\nbee{0}3.jpg{0}\n"
STRAY = 'ant\t1.jpg\t"red\nbee\t2.jpg\t"so" it said\nbee\t3.jpg\t"\n'
ROWS = "file{0}kind\n1.jpg{0}ant\n2.jpg{0}bee \n3.jpg{0}bee\n"


def written(value: Any) -> str:
    """A value as recipes have it."""
    return "none" if value is None else json.dumps(value)


@pytest.mark.parametrize(
    ("tables", "named", "more"),
    [
        ({"t.csv": ROWS.format(",")}, "t.csv", {}),
        ({"t.csv": "\ufeff" + ROWS.format(",")}, "t.csv", {}),
        ({"t.tsv": ROWS.format("\t")}, "t.tsv", {}),
        ({"t.csv": ROWS.format(";")}, "t.csv", {"separator": ";"}),
        ({"t/training.tsv": ROWS.format("\t"), "t/valid.csv": ROWS.format(",")}, "t", {}),
        ({"t.jsonl": JSON}, "t.jsonl", {}),
        ({"t.ndjson": "\ufeff" + JSON}, "t.ndjson", {}),
        ({"t.csv": HEADLESS.format(",")}, "t.csv", {"columns": ["kind", "file", "note"]}),
        ({"t.tsv": HEADLESS.format("\t")}, "t.tsv", {"columns": ["kind", "file", "note"], "header": False}),
        ({"t": HEADLESS.format("|")}, "t", {"columns": ["kind", "file", "note"], "separator": "|"}),
        ({"t.csv": "x,y,z\n" + HEADLESS.format(",")}, "t.csv", {"columns": ["kind", "file", "n"], "header": True}),
        ({"t.tsv": STRAY}, "t.tsv", {"columns": ["kind", "file", "note"], "quote": None}),
        ({"t/train.txt": ROWS.format(";"), "t/dev.txt": ROWS.format(";")}, "t", {"separator": ";"}),
        ({"t.csv": ROWS.format(",").replace(".jpg", "")}, "t.csv", {"ending": ".jpg"}),
        ({"t.csv": ROWS.format(",").replace("1.jpg", '"..\\{}\\1.jpg"')}, "t.csv", {}),
        ({"t/train.jsonl": JSON, "t/test.ndjson": JSON}, "t", {}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value,
)
def test_the_check_and_the_runtime_agree(
    tmp_path: Path, tables: dict[str, str], named: str, more: dict[str, Any]
) -> None:
    for name, text in tables.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("{}", tmp_path.name), encoding="utf-8")
    for number in (1, 2, 3):
        (tmp_path / f"{number}.jpg").touch()
    words = "".join(f", {name}={written(value)}" for name, value in more.items())
    source = "jsonl" if any("json" in name for name in tables) else "csv"
    text = f'model resnet18()\ndata {source}("{named}", image="file", label="kind", root="."{words})\n'
    checked = check(Source("r.leaven", text, tmp_path))
    assert checked.recipe is not None, checked.diagnostics
    items = table(tmp_path / named, image="file", target=Label("kind"), root=tmp_path, **more)
    assert items.target.names == ("ant", "bee")
    assert checked.recipe.data.outputs == 2


def test_card_and_class_name_the_same_files() -> None:
    cards = {name: card for name in own.names("data") if (card := own.read("data", name)) is not None}
    assert {ending for card in cards.values() for ending in card.data.endings} == set(formats())
    assert all(ending in cards[each.SOURCE].data.endings for ending, each in formats().items())


@pytest.mark.parametrize(("encoding", "named"), [("latin1", "cp1252"), ("utf-16", "utf-16")])
@pytest.mark.parametrize("source", ["csv", "jsonl"])
def test_a_table_in_another_encoding_can_be_read_or_converted(
    tmp_path: Path, source: str, encoding: str, named: str
) -> None:
    text = JSON if source == "jsonl" else ROWS.format(",")
    (tmp_path / f"t.{source}").write_text(text.replace("bee", "Käfer"), encoding=encoding)
    recipe = f'model resnet18()\ndata {source}("t.{source}", image="file", label="kind")\n'
    (found,) = check(Source("r.leaven", recipe, tmp_path)).diagnostics
    line = 1 if encoding == "utf-16" else next(at for at, row in enumerate(text.splitlines(), 1) if "bee" in row)
    assert (found.id, found.headline) == ("not-utf8", f"line {line} of `t.{source}` is not UTF-8 text")
    assert found.fix is not None
    if source == "jsonl":
        assert f"iconv -f {named} -t utf-8 t.jsonl > t-utf8.jsonl" in found.fix.message
        return
    assert f'encoding="{named}"' in found.fix.message
    (tmp_path / "1.jpg").touch()
    named_so = recipe.replace('label="kind"', f'label="kind", encoding="{named}"')
    checked = check(Source("r.leaven", named_so, tmp_path))
    assert checked.recipe is not None, checked.diagnostics
    assert checked.recipe.data.outputs == 2


def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"image": "1.jpg", "age": 1}\n{"image": "2.jpg", "age": 1%s}\n' % ("0" * 5000))
    recipe = 'model resnet18()\ndata jsonl("t.jsonl", target="age")\n'
    (found,) = check(Source("r.leaven", recipe, tmp_path)).diagnostics
    assert found.headline == "line 2 of `t.jsonl` has a number with more than 4,300 digits"


def test_quoted_cells_may_have_separators_and_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('file,kind,note\n1.jpg,"ant, red","two\nlines"\n2.jpg,bee,"a ""quote"""\n')
    (tmp_path / "1.jpg").touch()
    assert table(tmp_path / "t.csv", image="file", target=Label("kind")).target.names == ("ant, red", "bee")


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_texts_of_a_table_are_checked_in_every_format(tmp_path: Path, source: str) -> None:
    (tmp_path / "t.csv").write_text("review,kind\nfine,good\nlong,bad\n")
    (tmp_path / "t.jsonl").write_text('{"review": "fine", "kind": "good"}\n{"review": "long", "kind": "bad"}\n')
    parquet.write_table(pa.table({"review": ["fine", "long"], "kind": ["good", "bad"]}), tmp_path / "t.parquet")
    model = 'model transformers.auto("bert-base-cased")'
    checked = check(
        Source("r.leaven", f'{model}\ndata {source}("t.{source}", text="review", label="kind")\n', tmp_path)
    )
    assert checked.recipe is not None
    assert (checked.recipe.data.task.input, checked.recipe.data.outputs) == ("text", 2)


# -- parquet


def picture(red: int) -> bytes:
    content = BytesIO()
    Image.new("RGB", (6, 5), (red, 0, 0)).save(content, "PNG")
    return content.getvalue()


IMAGES = {
    "paths": ["0.png", "1.png", "2.png"],
    "bytes": [picture(0), picture(100), picture(200)],
    "structs": [{"bytes": picture(red), "path": f"{red}.png"} for red in (0, 100, 200)],
    "structs of paths": [{"bytes": None, "path": f"{number}.png"} for number in range(3)],
}


def reports(folder: Path, arguments: str) -> list[str]:
    text = f"model resnet18()\ndata parquet({arguments}) {{ eval resize([32, 32]) }}\n"
    return [render_concise(found) for found in check(Source("r.leaven", text, folder)).diagnostics]


@pytest.mark.parametrize("kind", IMAGES)
def test_images_of_a_parquet_file(tmp_path: Path, kind: str) -> None:
    for number, red in enumerate((0, 100, 200)):
        (tmp_path / f"{number}.png").write_bytes(picture(red))
    columns = {"image": IMAGES[kind], "kind": ["b", "a", "b"], "age": [1.5, 2.0, 7.0]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert reports(tmp_path, '"t.parquet", label="kind"') == []
    classes = table(tmp_path / "t.parquet", image="image", target=Label("kind"))
    assert (classes.target.names, list(classes.values or ())) == (("a", "b"), [1, 0, 1])
    assert [classes.load(index).getpixel((0, 0))[0] for index in range(3)] == [0, 100, 200]
    numbers = table(tmp_path / "t.parquet", image="image", target=Numbers("age"))
    assert numbers.values == [(1.5,), (2.0,), (7.0,)]


def test_a_check_does_not_read_the_images_in_a_large_file(tmp_path: Path) -> None:
    """The labels of a table are looked at, however large its images are."""
    noise = [bytes(25_000_000)] * 3
    columns = pa.table({"image": noise, "kind": ["ant", "bee", "bee"]})
    parquet.write_table(columns, tmp_path / "t.parquet", compression="none", use_dictionary=False)
    text = 'model resnet18()\ndata parquet("t.parquet", label="kind")\n'
    checked = check(Source("r.leaven", text, tmp_path))
    assert checked.recipe is not None
    assert checked.recipe.data.outputs == 2


def test_a_damaged_image_inside_of_a_table_is_named(tmp_path: Path) -> None:
    images = [{"bytes": picture(9), "path": "good.png"}, {"bytes": b"no image", "path": "bad.png"}]
    parquet.write_table(pa.table({"image": images, "kind": ["a", "b"]}), tmp_path / "t.parquet")
    items = table(tmp_path / "t.parquet", image="image", target=Label("kind"))
    with pytest.raises(BadFile, match=r"bad\.png"):
        items.load(1)


@pytest.mark.parametrize(
    ("columns", "arguments", "report"),
    [
        ({"image": ["0.png"] * 2, "kind": ["a", "b"]}, 'label="kidn"', "no column `kidn`"),
        ({"image": ["0.png"] * 2, "kind": ["a", None]}, 'label="kind"', "row 2 of `t.parquet` has no label"),
        ({"image": ["0.png", None], "kind": ["a", "b"]}, 'label="kind"', "row 2 of `t.parquet` has no image"),
        (
            {"image": ["0.png"] * 2, "age": [1.0, float("nan")]},
            'target="age"',
            "row 2 of `t.parquet` has `nan` as `age`",
        ),
        ({"image": ["0.png"] * 2, "age": ["1", "old"]}, 'target="age"', "has `old` as `age`, which is not a number"),
        ({"image": ["0.png"] * 2, "kind": [1.5, 2.5]}, 'label="kind"', "label of type float, which is not a class"),
        ({"image": ["0.png"] * 2, "kind": [b"a", b"b"]}, 'label="kind"', "label of type bytes, which is not a class"),
        ({"image": pa.array([], pa.string()), "kind": pa.array([], pa.string())}, 'label="kind"', "has no rows"),
    ],
)
def test_what_is_wrong_with_a_parquet_file(
    tmp_path: Path, columns: dict[str, object], arguments: str, report: str
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    (found,) = reports(tmp_path, f'"t.parquet", {arguments}')
    assert report in found
    reader = Numbers("age") if "target" in arguments else Label(arguments.split('"')[1])
    with pytest.raises(Failure) as caught:
        table(tmp_path / "t.parquet", image="image", target=reader)
    assert report.removeprefix("row 2 of `t.parquet` ") in caught.value.headline


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 and more PAR1", b"file,kind\n1.jpg,ant\n"])
def test_a_file_that_is_not_parquet(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    (found,) = reports(tmp_path, '"t.parquet", label="kind"')
    assert "`t.parquet` can't be read: " in found
    assert "missing-file" in found


def test_without_pyarrow_the_report_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (found,) = reports(tmp_path, '"t.parquet", label="kind"')
    assert "`parquet` needs the library pyarrow, which is not installed" in found
    with pytest.raises(Failure, match="can't be read: it needs the library pyarrow: pip install pyarrow"):
        table(tmp_path / "t.parquet", image="image", target=Label("kind"))


# -- as it is published


def found_in(folder: Path, arguments: str) -> list[str]:
    model = 'model transformers.auto("bert-base-cased")'
    checked = check(Source("r.leaven", f"{model}\ndata {arguments}\n", folder))
    helps = [found.fix.message if found.fix is not None else "" for found in checked.diagnostics]
    return [f"{found.headline}: {help}" for found, help in zip(checked.diagnostics, helps, strict=True)]


def test_a_stray_quote_has_a_way_out(tmp_path: Path) -> None:
    """`quote=none` is offered, and every line is then a row."""
    (tmp_path / "sms.tsv").write_text('ham\tGo until "jurong\nspam\t"Free entry\nham\t"Ok" lar\n')
    arguments = 'tsv("sms.tsv", columns=["kind", "text"], text="text", label="kind"{})'
    (found,) = found_in(tmp_path, arguments.format(""))
    assert found.startswith('line 2 of `sms.tsv` has a quote (") that is not closed')
    assert "`quote=none`" in found
    assert found_in(tmp_path, arguments.format(", quote=none")) == []
    items = table(tmp_path / "sms.tsv", text="text", target=Label("kind"), columns=["kind", "text"], quote=None)
    assert [items.load(at) for at in range(3)] == ['Go until "jurong', '"Free entry', '"Ok" lar']


def test_lines_that_a_quote_swallows_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "sms.tsv").write_text('ham\t"Ok lar\nspam\tFree\nham\tbye"\nspam\tWin\n')
    (found,) = found_in(tmp_path, 'tsv("sms.tsv", columns=["kind", "text"], text="text", label="kind")')
    assert found.startswith("line 3 of `sms.tsv` ends a quote that has other lines of the table in it")
    assert "`quote=none`" in found


def test_cells_that_have_no_column_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("kind,text\nham,Ok, lar\nspam,Free\n")
    (found,) = found_in(tmp_path, 'csv("t.csv", text="text", label="kind")')
    assert found.startswith("line 2 of `t.csv` has 3 cells, but the table has 2 columns")


@pytest.mark.parametrize(
    ("arguments", "report"),
    [
        ('csv("t.csv", columns=["kind"], text="text", label="kind")', "line 1 of `t.csv` has 2 cells, but `columns`"),
        ('csv("t.csv", text="text", label="kind", encoding="klingon")', "`klingon` is not an encoding of text"),
        ('csv("t.csv", text="text", label="kind", encoding="rot13")', "`rot13` is not an encoding of text"),
        ('tsv("t.dat", text="text", label="kind")', 'does not end in .tsv: write `csv(…, separator="\\t")`'),
    ],
)
def test_what_is_wrong_with_a_layout(tmp_path: Path, arguments: str, report: str) -> None:
    for name in ("t.csv", "t.dat"):
        (tmp_path / name).write_text("kind,text\nham,Ok lar\nspam,Free\n")
    (found,) = found_in(tmp_path, arguments)
    assert report in found


def test_a_table_without_a_header_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "ag.csv").write_text(
        '"3","Wall St. Bears","A long news item, of which nobody would call a column so"\n' * 3
    )
    model = 'model transformers.auto("bert-base-cased")'
    recipe = f'{model}\ndata csv("ag.csv", text="text", label="label")\n'
    first, *_ = check(Source("r.leaven", recipe, tmp_path)).diagnostics
    assert "for a table without a header, `columns=[…]` does" in "".join(first.notes)
