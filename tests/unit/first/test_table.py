"""What a table is, as it is published, and the data that a first recipe has for it."""

import json
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from tests import published_tables, tiny_bert

from leaven.first.options import NotUnderstood, TableOptions
from leaven.first.recipes import first_recipe
from leaven.first.table import TableLook, look_at_table

WORDS = [text for text, _ in tiny_bert.reviews(60)]


def look(path: Path, **options: object) -> TableLook:
    return look_at_table(path, TableOptions(**options))  # type: ignore[arg-type]


def data_of(found: TableLook) -> str:
    """The data of its recipe, in one line."""
    text = first_recipe(found, found.path.with_name("a.leaven"), "minilm", None, scratch=False)
    lines = text.partition("data  ")[2].partition("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines).replace("( ", "(").replace(", )", ")")


def rows(line: str, count: int = 60) -> str:
    """So many rows: `{text}`, `{at}` and `{kind}` are another one in each, or one of three."""
    kinds = ("one", "two", "three")
    return "".join(line.format(text=WORDS[at % 60], at=at, kind=kinds[at % 3], n=at % 3 - 1) for at in range(count))


TABLES = {
    "sst2.tsv": ("sentence\tlabel\n" + rows("{text}\t{n}\n"), 'csv("sst2.tsv", text="sentence", label="label")'),
    "cola.tsv": (
        rows("gj04\t{kind}\t\t{text}\n"),
        'csv("cola.tsv", columns=["column1", "label", "column3", "text"], text="text", label="label")',
    ),
    "tweets.csv": (
        "clean_text,category\n" + rows("{text},{n}.0\n"),
        'csv("tweets.csv", text="clean_text", label="category")',
    ),
    "excel.csv": (
        "\ufeffKommentar;Art;Preis\n" + rows("{text};{kind};{at},50\n"),
        'csv("excel.csv", separator=";", text="Kommentar", label="Art")',
    ),
    "flats.csv": (  # the same ids in each part
        "id;description;price\n" + "".join(f"{at % 30};{WORDS[at % 60]};{at}50,5\n" for at in range(60)),
        'csv("flats.csv", separator=";", text="description", target="price", decimal=",")',
    ),
    "ages.csv": (
        "text,age,city\n" + "".join(f"{WORDS[at % 60]},{at % 30}.0,Ulm\n" for at in range(60)),
        'csv("ages.csv", text="text", target="age")',
    ),
    "emotions.txt": (
        rows("{text};{kind}\n"),
        'csv("emotions.txt", separator=";", columns=["text", "label"], text="text", label="label")',
    ),
    "pairs.tsv": (
        "id\tsentence1\tsentence2\tgold_label\n" + rows("{at}\t{text}\tanother one, {text}\t{kind}\n"),
        'csv("pairs.tsv", text=["sentence1", "sentence2"], label="gold_label")',
    ),
    "doccano.jsonl": (
        "".join(
            json.dumps({"id": at, "text": text, "label": ["ab"[at % 2]], "Comments": []}) + "\n"
            for at, text in enumerate(WORDS)
        ),
        'jsonl("doccano.jsonl", text="text", label="label")',
    ),
    "topics.jsonl": (
        "".join(
            json.dumps({"text": text, "topics": [*"abcd"[: at % 4 + 1]]}) + "\n" for at, text in enumerate(WORDS)
        ),
        'jsonl("topics.jsonl", text="text", labels="topics")',
    ),
    "nested.jsonl": (
        "".join(
            json.dumps({"id": at, "data": {"text": text}, "meta": {"kind": "ab"[at % 2]}}) + "\n"
            for at, text in enumerate(WORDS)
        ),
        'jsonl("nested.jsonl", text="data.text", label="meta.kind")',
    ),
    "toxic.csv": (
        "id,comment_text,toxic,obscene,threat\n" + rows("{at},{text},1,0,1\n", 30) + rows("{at},{text},0,1,0\n", 30),
        'csv("toxic.csv", text="comment_text", labels=["toxic", "obscene", "threat"])',
    ),
    "readability.csv": (
        "id,excerpt,target\n" + rows("{at},{text},-{at}.75\n"),
        'csv("readability.csv", text="excerpt", target="target")',
    ),
    "sorted.csv": (
        "review,sentiment\n" + rows("{text} {at},good\n", 2000) + rows("{text} {at},bad\n", 2000),
        'csv("sorted.csv", text="review", label="sentiment")',
    ),
    "gaps.csv": (
        "text,label\n" + rows("{text},{kind}\n") + ",one\nno label,\n",
        'csv("gaps.csv", text="text", label="label") { tokenize max_length=128; on_bad_file skip }',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_understood(tmp_path: Path, name: str) -> None:
    content, expected = TABLES[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert data_of(look(tmp_path / name)).removesuffix(" { tokenize max_length=128 }") == expected


def test_ag_news(tmp_path: Path) -> None:
    found = look(published_tables.ag_news(tmp_path / "ag_news"))
    data = (
        'columns=["label", "column2", "text"], text="text", label="label", class_names=["World", "Sports", "Business", '
    )
    assert data.replace(", ", ",") in data_of(found).replace("\n    ", "").replace(", ", ",")
    assert "82 rows (train 60, test 22); without a header" in found.seen
    assert "4 classes in `label`: World (25 %), Sports (25 %)" in found.seen
    assert "classes.txt says what the labels mean" in found.seen
    assert "2 texts of test are also in train" in found.seen
    assert "guessed: the texts are in `column3`, not in `column2`; --text COLUMN says otherwise" in found.seen
    chosen = look(tmp_path / "ag_news", text=("2", "3"), label="column1")
    assert chosen.guesses == ()
    assert chosen.roles.text == ("text1", "text2")
    named = look(tmp_path / "ag_news", columns=("class", "title", "news"), label="class", text=("news",))
    assert 'columns=["class", "title", "news"], text="news", label="class"' in data_of(named)


@pytest.mark.parametrize(
    ("labels", "names", "called"),
    [
        (("0", "1"), "ham\nspam\n", ("ham", "spam")),
        (("1", "2"), "ham\n\nspam", ("ham", "spam")),
        (("0", "2"), "ham\nspam\n", ()),
        (("no", "yes"), "ham\nspam\n", ()),
        (("0", "1"), "ham\nspam\neggs\n", ()),
        (("0", "1"), "ham\nham\n", ()),
    ],
)
def test_names_of_numbered_classes(
    tmp_path: Path, labels: tuple[str, str], names: str, called: tuple[str, ...]
) -> None:
    """A file beside the table says what labels mean only if it fits them."""
    lines = "".join(f"{labels[at % 8 == 0]},the text number {at}\n" for at in range(40))
    (tmp_path / "mails.csv").write_text(f"label,text\n{lines}")
    (tmp_path / "labels.txt").write_text(names)
    found = look(tmp_path / "mails.csv")
    assert found.class_names == called
    text = first_recipe(found, tmp_path / "a.leaven", "minilm", None, scratch=False)
    assert f'metrics f1(of="{called[1] if called else labels[1]}"), accuracy()' in text


@pytest.mark.parametrize(
    ("content", "called"),
    [
        ({"0": "Blight", "1": "Healthy"}, ("Blight", "Healthy")),
        ({"Blight": 0, "Healthy": 1}, ("Blight", "Healthy")),
        ({"0": "Blight"}, ()),
        ({"0": "Blight", "1": "Blight"}, ()),
        (["Blight", "Healthy"], ()),
    ],
)
def test_names_of_numbered_classes_in_json(tmp_path: Path, content: object, called: tuple[str, ...]) -> None:
    """As in Kaggle's label_num_to_disease_map.json."""
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"the text {at},{at % 2}\n" for at in range(20)))
    (tmp_path / "label_num_to_disease_map.json").write_text(json.dumps(content))
    assert look(tmp_path / "t.csv").class_names == called


def test_sms_spam(tmp_path: Path) -> None:
    found = look(published_tables.sms_spam(tmp_path / "sms"))
    assert found.seen.splitlines()[0].endswith(
        "160 rows; separated by tabs, without a header, quotes are part of the text"
    )
    assert "2 classes in `label`: ham (88 %), spam (12 %)" in found.seen
    text = first_recipe(found, tmp_path / "a.leaven", "minilm", None, scratch=False)
    assert 'separator="\\t", columns=["label", "text"], quote=none, text="text", label="label"' in text
    assert (
        "\n# 88 % are ham: accuracy alone would not show that spam is missed.\n"
        '# The first metric, the F1 of spam, chooses the best epoch.\nmetrics f1(of="spam"), accuracy()\n'
    ) in text


def test_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "spam.csv").write_bytes(("v1,v2,,,\n" + rows('{kind},"{text} für 5 £",,,\n')).encode("cp1252"))
    assert data_of(look(tmp_path / "spam.csv")).startswith('csv("spam.csv", encoding="cp1252", text="v2", label="v1")')
    (tmp_path / "unicode.txt").write_bytes(("text\tlabel\n" + rows("{text}\t{kind}\n")).encode("utf-16"))
    assert 'separator="\\t", encoding="utf-16"' in data_of(look(tmp_path / "unicode.txt"))


@pytest.mark.parametrize("written", ["{}.jpg", "photos\\{}.jpg", "data/photos/{}.jpg", "{}"])
def test_a_table_of_images_finds_them(tmp_path: Path, written: str) -> None:
    """In a folder beside the table, above it, with Windows' separators, or without what the files end in."""
    folder = tmp_path / "data"
    (folder / "photos").mkdir(parents=True)
    for at in range(12):
        Image.new("RGB", (9, 9)).save(folder / "photos" / f"im{at}.jpg")
    lines = "".join(f"{written.format(f'im{at}')},{'pug' if at % 2 else 'boxer'}\n" for at in range(12))
    (folder / "labels.csv").write_text(f"id,breed\n{lines}")
    found = look(folder / "labels.csv")
    assert found.noun == "images"
    assert found.rows == {"": 12}
    assert ('ending=".jpg"' in data_of(found)) == (written == "{}")
    assert ("root=" in data_of(found)) == (not written.startswith("photos"))


@pytest.mark.parametrize("written", ["C:\\ann's [new]\\{}.jpg", "/data/$birds.v2/photos/{}.jpg", "\\\\nas\\x\\{}.jpg"])
def test_a_table_of_another_computer_is_told_how_to_name_its_images_here(tmp_path: Path, written: str) -> None:
    (tmp_path / "photos").mkdir()
    for at in range(12):
        Image.new("RGB", (9, 9)).save(tmp_path / "photos" / f"im{at}.jpg")
    lines = "".join(f"{written.format(f'im{at}')},{'pug' if at % 2 else 'boxer'}\n" for at in range(12))
    (tmp_path / "dogs.csv").write_text(f"path,breed\n{lines}")
    with pytest.raises(NotUnderstood, match="they are here under the ends of these paths") as refused:
        look(tmp_path / "dogs.csv")
    _, command, again = str(refused.value).split("\n")
    subprocess.run(command, shell=True, check=True)
    found = look(Path(again.split()[-1]))
    assert (found.noun, found.rows, found.roles.label) == ("images", {"": 12}, "breed")


def test_numbers_in_a_table_of_texts_are_not_images_that_happen_to_be_near(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for at in range(60):
        Image.new("RGB", (9, 9)).save(tmp_path / "photos" / f"{at}.jpg")
    (tmp_path / "t.csv").write_text("index,stars,text,kind\n" + rows("{at},{at},{text},{kind}\n"))
    assert data_of(look(tmp_path / "t.csv")).startswith('csv("t.csv", text="text", label="kind")')
    stars = "".join(f"{at % 5},the {'great' if at % 2 else 'small'} text\n" for at in range(60))
    (tmp_path / "t.csv").write_text(f"stars,text\n{stars}")
    assert look(tmp_path / "t.csv").roles.text == ("text",)
    (tmp_path / "t.csv").write_text("id,kind\n" + rows("{at},{kind}\n", 61))  # 60.jpg is not there
    with pytest.raises(NotUnderstood, match="no column with texts or"):
        look(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("id,kind\n" + rows("{at},{kind}\n"))
    assert 'image="id", root="photos", ending=".jpg", label="kind"' in data_of(look(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("cell", "decimal", "is_sure"),
    [
        ('"${n},{k:03}.50"', "", True),
        ('"{n},{k:03}"', ', decimal="."', False),
        ('"{n},{k:02}"', ', decimal=","', True),
        ('"{n}.{k:03},50 €"', ', decimal=","', True),
        ("{n}.{k}", "", True),
    ],
)
def test_numbers_as_people_write_them(tmp_path: Path, cell: str, decimal: str, is_sure: bool) -> None:
    lines = "".join(f"the flat number {at},{cell.format(n=at % 40 + 1, k=at + 11)}\n" for at in range(60))
    (tmp_path / "t.csv").write_text(f"text,price\n{lines}")
    found = look(tmp_path / "t.csv", target="price")
    assert f'target="price"{decimal})' in data_of(found)
    assert ("the comma in `1,011` separates thousands" in found.seen) != is_sure
    if not is_sure:
        assert 'target="price", decimal=",")' in data_of(look(tmp_path / "t.csv", target="price", decimal=","))


@pytest.mark.parametrize("column", ["Finding Labels", "label", "findings"])
def test_a_few_combinations_are_several_labels_not_classes(tmp_path: Path, column: str) -> None:
    findings = ("Mass", "Effusion|Mass", "No Finding", "Effusion", "Hernia|Mass", "Hernia", "Effusion|Hernia")
    for at in range(60):
        Image.new("L", (9, 9)).save(tmp_path / f"{at}.png")
    (tmp_path / "t.csv").write_text(
        f"Image Index,{column},Age\n" + "".join(f"{at}.png,{findings[at % 7]},{20 + at}\n" for at in range(60))
    )
    found = look(tmp_path / "t.csv")
    assert f'labels="{column}", label_separator="|"' in data_of(found)
    guessed = f"guessed: `Effusion|Mass` in `{column}` is several labels, not one class; --label COLUMN says otherwise"
    assert guessed in found.seen.splitlines()
    assert f'label="{column}"' in data_of(look(tmp_path / "t.csv", label=column))


@pytest.mark.parametrize(("mark", "written"), [(" ", ', label_separator=" "'), (";", "")])
def test_several_labels_in_a_cell_are_separated(tmp_path: Path, mark: str, written: str) -> None:
    tags = ("clear", "water", "road", "haze", "cloudy", "primary")
    lines = "".join(f"im{at}.jpg,{mark.join({tags[at % 6], tags[at % 5], tags[at // 7 % 6]})}\n" for at in range(40))
    for at in range(40):
        Image.new("RGB", (9, 9)).save(tmp_path / f"im{at}.jpg")
    (tmp_path / "t.csv").write_text(f"image_name,tags\n{lines}")
    found = look(tmp_path / "t.csv", labels=("tags",))
    assert f'labels="tags"{written})' in data_of(found)
    assert "which look like several" not in found.seen


@pytest.mark.parametrize(
    ("content", "report"),
    [
        ("PassengerId,Survived,Name\n" + rows('{at},{n},"Smith, Mr. {text}"\n'), "no column with texts or"),
        (",".join(f"pixel{at}" for at in range(65)) + "\n" + rows("{n}" + ",{at}" * 64 + "\n"), "if these are pixels"),
        ("id,text\n" + rows("{at},{text}\n"), "no column that looks like labels"),
        (rows("ABBR:exp {text}\n"), "has a single column"),
        ("file,label\n" + rows("{at}.jpg,{kind}\n"), "0.jpg, which are not there; --root FOLDER"),
        ("", "is empty"),
    ],
)  # fmt: skip
def test_what_no_recipe_can_be_written_for(tmp_path: Path, content: str, report: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(NotUnderstood) as refused:
        look(tmp_path / "t.csv")
    assert report in str(refused.value)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,kind\n" + rows("{text},{kind}\n"))
    with pytest.raises(NotUnderstood, match="has no column `lable`; its columns are `text`, `kind`"):
        look(tmp_path / "t.csv", label="lable")
