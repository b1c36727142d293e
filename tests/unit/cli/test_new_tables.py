"""`leaven new` for tables: what it says, asks and writes, and the way from a published file to a prediction."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from tests import published_tables, tiny_bert

from leaven.cli.main import leaven
from leaven.cli.new import look_and_ask
from leaven.first.options import TableOptions

pytest.importorskip("transformers")


def new(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    answer = CliRunner().invoke(leaven, ["new", *words])
    return answer.exit_code, answer.output


def test_a_table_of_texts_becomes_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_bert.write_csv(tmp_path / "reviews.csv")
    code, said = new(tmp_path, monkeypatch, "reviews.csv")
    assert code == 0, said
    assert said.startswith(
        "reviews.csv: 60 rows\n  texts in `sentence`\n  2 classes in `label`: good (50 %), bad (50 %)\n"
    )
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
    assert "t.csv has no column that looks like labels" in said


def test_where_it_is_not_sure_it_says_so_and_how_to_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published_tables.ag_news(tmp_path / "ag_news")
    code, said = new(tmp_path, monkeypatch, "ag_news")
    assert code == 0, said
    recipe = (tmp_path / "ag_news.leaven").read_text()
    assert "# Guessed: the texts are in `column3`, not in `column2` (`leaven new --text COLUMN`).\n" in recipe
    code, said = new(tmp_path, monkeypatch, "ag_news", "--text", "2", "-o", "-")
    assert code == 0, said
    assert "uessed" not in said
    assert 'columns=["label", "text", "column3"]' in said


def test_the_only_file_of_an_unpacked_folder_is_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published_tables.sms_spam(tmp_path / "sms")
    for name in ("readme", ".DS_Store"):
        (tmp_path / "sms" / name).write_text("about\tit\n")
    code, said = new(tmp_path, monkeypatch, "sms", "-o", "-")
    assert code == 0, said
    assert 'csv("sms/SMSSpamCollection", separator="\\t"' in said.replace("\n    ", "")


def test_a_file_beside_folders_of_texts_is_not_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(24):
        file = tmp_path / "imdb" / ("neg", "pos")[at % 2] / f"{at}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"a review of film {at}")
    (tmp_path / "imdb" / "imdbEr.txt").write_text("0.1\n0.2\n")
    code, said = new(tmp_path, monkeypatch, "imdb")
    assert code == 0, said
    assert 'text_folder("imdb")' in (tmp_path / "imdb.leaven").read_text()


def test_in_a_terminal_it_asks(tmp_path: Path) -> None:
    published_tables.ag_news(tmp_path / "ag_news")
    with CliRunner().isolation(input="column2\n") as (printed, *_):
        look = look_and_ask(tmp_path / "ag_news", TableOptions(), can_ask=True, err=False)
        assert b"Which column has the texts?" in printed.getvalue()
    assert look.names == ("label", "text", "column3")
    with CliRunner().isolation(input="\n"):
        look = look_and_ask(tmp_path / "ag_news", TableOptions(), can_ask=True, err=False)
    assert look.names == ("label", "column2", "text")


@pytest.mark.parametrize(("answer", "is_several"), [("\n", True), ("n\n", False)])
def test_in_a_terminal_it_asks_whether_a_row_can_have_several_labels(
    tmp_path: Path, answer: str, is_several: bool
) -> None:
    labels = ("joy", "joy|fear", "fear", "anger|joy", "anger")
    lines = "".join(f"a text with number {at},{labels[at % 5]}\n" for at in range(40))
    (tmp_path / "t.csv").write_text(f"text,label\n{lines}")
    with CliRunner().isolation(input=answer) as (printed, *_):
        look = look_and_ask(tmp_path / "t.csv", TableOptions(), can_ask=True, err=False)
        assert b"Can a row have several labels?" in printed.getvalue()
    assert look.roles.labels == (("label",) if is_several else ())
    assert look.roles.label == (None if is_several else "label")


@pytest.mark.parametrize(("name", "reason"), [("a.xlsx", "a spreadsheet"), ("a.json", "jq -c"), ("a.zip", "unpack it")])
def test_files_that_are_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    (tmp_path / name).write_bytes(b"PK\3\4\0")
    code, said = new(tmp_path, monkeypatch, name)
    assert code == 2
    assert reason in said


def test_lines_of_fasttext_are_refused_with_the_way_to_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ft.txt").write_text("".join(f"__label__{kind} {text}\n" for text, kind in tiny_bert.reviews(30)))
    code, said = new(tmp_path, monkeypatch, "ft.txt")
    assert code == 2
    (command,) = (line for line in said.splitlines() if "sed -E" in line)
    subprocess.run(["sh", "-c", command.partition("can be read: ")[2]], cwd=tmp_path, check=True)
    code, said = new(tmp_path, monkeypatch, "ft.tsv", "-o", "-")
    assert code == 0, said
    assert 'text="text", label="label"' in said


def test_a_folder_with_several_tables_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fake.csv", "true.csv"):
        tiny_bert.write_csv(tmp_path / name)
    code, said = new(tmp_path, monkeypatch, ".")
    assert code == 2
    assert "has several tables: fake.csv, true.csv; name the one with the labels: leaven new fake.csv" in said
    (tmp_path / "fake.csv").rename(tmp_path / "train-00000-of-00001.csv")
    (tmp_path / "true.csv").rename(tmp_path / "test-00000-of-00001.csv")
    code, said = new(tmp_path, monkeypatch, ".")
    assert code == 2
    assert "if these are splits, rename them to train.csv, val.csv and so on" in said


def test_a_folder_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, (text, kind) in enumerate(tiny_bert.reviews(40)):
        place = tmp_path / "imdb" / ("train" if at < 30 else "test") / kind / f"{at}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    code, said = new(tmp_path, monkeypatch, "imdb", "-o", "-")
    assert code == 0, said
    assert "2 classes, 30 texts for training, already split into train, test" in said
    assert 'data  text_folder("imdb") { tokenize max_length=128 }' in said


def test_a_list_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths and numbers, separated by spaces, without a header."""
    (tmp_path / "img").mkdir()
    for at in range(12):
        Image.new("RGB", (8, 8), (at % 2 * 200, 90, at)).save(tmp_path / "img" / f"{at}.jpg")
    (tmp_path / "list.txt").write_text("".join(f"img/{at}.jpg {at % 2}\n" for at in range(12)))
    code, said = new(tmp_path, monkeypatch, "list.txt", "-o", "-")
    assert code == 0, said
    assert "separated by spaces, without a header" in said
    assert 'csv("list.txt", separator=" ", columns=["image", "label"], image="image", label="label")' in said


def imdb(folder: Path) -> None:
    """Reviews in folders as IMDB's are: 50,000 that nobody labelled are beside those for training."""
    for at, (text, kind) in enumerate(tiny_bert.reviews(60)):
        split, name = ("train", kind) if at < 30 else ("train", "unsup") if at < 50 else ("test", kind)
        place = folder / split / name / f"{at}_7.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for file in ("README", "imdb.vocab", "train/urls_unsup.txt", "train/labeledBow.feat", "test/urls_pos.txt"):
        (folder / file).write_text("0\n")


def test_texts_without_a_label_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imdb(tmp_path / "aclImdb")
    code, said = new(tmp_path, monkeypatch, "aclImdb", "-o", "r.leaven")
    assert code == 0, said
    assert "2 classes, 30 texts for training" in said
    assert "the texts in unsup have no label, as its name says: they are left out by `classes=`" in said
    recipe = (tmp_path / "r.leaven").read_text()
    assert 'data  text_folder("aclImdb", classes=["bad", "good"]) { tokenize max_length=128 }' in recipe
    (tmp_path / "r.leaven").write_text(recipe.replace(', classes=["bad", "good"]', ""))
    told = CliRunner().invoke(leaven, ["check", "r.leaven"]).output
    assert "warning[unequal-classes]: class `unsup` is in the train split of `aclImdb` but not in test" in told
    assert 'leave them out: `classes=["bad", "good"]`' in told


@pytest.mark.parametrize("says", ["config", "tokenizer"])
def test_a_text_is_no_longer_than_the_model_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    tiny_bert.make(tmp_path / "bert", longest=64)
    if says == "tokenizer":
        config = tmp_path / "bert" / "config.json"
        config.write_text(config.read_text().replace('"max_position_embeddings": 64', '"max_position_embeddings": 512'))
    tiny_bert.write_csv(tmp_path / "reviews.csv")
    code, said = new(tmp_path, monkeypatch, "reviews.csv", "--model", 'transformers.auto("bert")', "-o", "-")
    assert code == 0, said
    assert "{ tokenize max_length=64 }" in said


def test_images_of_a_rare_class_are_measured_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(20):
        place = tmp_path / "tiles" / ("crack" if at % 8 == 0 else "fine") / f"{at}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(place)
    code, said = new(tmp_path, monkeypatch, "tiles", "-o", "tiles.leaven")
    assert code == 0, said
    assert 'metrics f1(of="crack"), accuracy()' in (tmp_path / "tiles.leaven").read_text()
    assert "unbalanced-classes" not in CliRunner().invoke(leaven, ["check", "tiles.leaven"]).output


@pytest.mark.parametrize(("counts", "metrics"), [((40, 38, 2), "metrics f1(), accuracy()"), ((40, 38, 3), "")])
def test_what_new_writes_and_what_check_warns_of_is_one_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], metrics: str
) -> None:
    rows = [
        f"a text number {at} of {name},{name}" for name, count in zip("abc", counts, strict=True) for at in range(count)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]))
    tiny_bert.make(tmp_path / "bert")
    code, said = new(tmp_path, monkeypatch, "t.csv", "--model", 'transformers.auto("bert")', "-o", "t.leaven")
    assert code == 0, said
    recipe = tmp_path / "t.leaven"
    assert "unbalanced-classes" not in CliRunner().invoke(leaven, ["check", "t.leaven"]).output
    assert [line for line in recipe.read_text().splitlines() if line.startswith("metrics")] == [metrics] * bool(metrics)
    recipe.write_text(recipe.read_text().replace(metrics or "\0", "metrics accuracy()"))
    checked = CliRunner().invoke(leaven, ["check", "t.leaven"]).output
    assert ("unbalanced-classes" in checked) == bool(metrics)


# -- to a prediction


def leaven_in(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "leaven", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sms", "ag_news"])
def test_from_a_published_table_to_a_prediction(tmp_path: Path, kind: str) -> None:
    """Without editing anything: new, check, run, predict and evaluate."""
    tiny_bert.make(tmp_path / "bert")
    table = published_tables.sms_spam(tmp_path / kind) if kind == "sms" else published_tables.ag_news(tmp_path / kind)
    model = ["--model", 'transformers.auto("bert")', "--epochs", "1", "-o", "t.leaven"]
    leaven_in(tmp_path, "new", str(table.relative_to(tmp_path)), *model)
    checked = leaven_in(tmp_path, "check", "t.leaven")
    assert "no errors" in checked
    assert "unbalanced-classes" not in checked
    leaven_in(tmp_path, "run", "t.leaven")
    assert ("spam" if kind == "sms" else "Sci/Tech") in leaven_in(tmp_path, "predict", "runs/t", "a good film")
    rows = table if kind == "sms" else table / "test.csv"
    predicted = leaven_in(tmp_path, "predict", "runs/t", str(rows), "--csv", "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == (161 if kind == "sms" else 23), predicted
    assert "accuracy" in leaven_in(tmp_path, "evaluate", "runs/t", "--data", str(table))


@pytest.mark.slow
def test_from_a_folder_of_texts_to_a_prediction(tmp_path: Path) -> None:
    tiny_bert.make(tmp_path / "bert")
    imdb(tmp_path / "aclImdb")
    leaven_in(tmp_path, "new", "aclImdb", "--model", 'transformers.auto("bert")', "--epochs", "1", "-o", "t.leaven")
    assert "30 samples" not in leaven_in(tmp_path, "run", "t.leaven")
    assert "unsup" not in leaven_in(tmp_path, "predict", "runs/t", "aclImdb/test/good/50_7.txt")
    assert "10 texts" in leaven_in(tmp_path, "evaluate", "runs/t", "--data", "aclImdb/test")


@pytest.mark.slow
def test_from_images_in_a_table_to_a_prediction(tmp_path: Path) -> None:
    """Names without their ending, in a folder beside the table."""
    (tmp_path / "dogs" / "train").mkdir(parents=True)
    for at in range(24):
        Image.new("RGB", (40, 32), (at % 2 * 200, 90, at)).save(tmp_path / "dogs" / "train" / f"{at:04x}.jpg")
    lines = "".join(f"{at:04x},{'pug' if at % 2 else 'boxer'}\n" for at in range(24))
    (tmp_path / "dogs" / "labels.csv").write_text(f"id,breed\n{lines}")
    (tmp_path / "dogs" / "sample_submission.csv").write_text("id,boxer,pug\n0000,0.5,0.5\n")
    leaven_in(tmp_path, "new", "dogs", "--model", "resnet10t", "--scratch", "-o", "t.leaven")
    leaven_in(tmp_path, "run", "t.leaven", "--quick")
    (folder,) = (tmp_path / "runs" / "t").glob("*_quick")
    assert "boxer" in leaven_in(tmp_path, "predict", str(folder), "dogs/train/0000.jpg")
    more = ("--data", "dogs/labels.csv", "--root", "dogs/train")
    assert "24 images" in leaven_in(tmp_path, "evaluate", str(folder), *more)
