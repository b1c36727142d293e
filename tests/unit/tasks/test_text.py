"""Training on texts: what exists for images exists for texts, from a recipe to a prediction."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import at_work, tiny_bert

from leaven import bundle, tasks
from leaven.bundle import Bundle
from leaven.formats.text_models import labels_of
from leaven.language.diagnostics import has_errors
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime import Caution, Failure, text_model
from leaven.runtime.data.samples import collate
from leaven.runtime.model.weights import read_weights

pytest.importorskip("transformers")
START = 'model transformers.auto("bert", pretrained=true)\ndata csv("reviews.csv", text="sentence", label="label")\n'
SHORT = "train epochs=2, batch=8\n"
LATER = 'phase "head", epochs=1 { freeze all - head }\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny BERT, the same with a head for reviews, and a table of 60 reviews."""
    made = tmp_path_factory.mktemp("texts")
    tiny_bert.make(made / "bert")
    tiny_bert.with_head(made / "bert", made / "teacher", "bad", "good")
    tiny_bert.write_csv(made / "reviews.csv")
    return made


def beside(folder: Path, made: Path) -> Path:
    """A new folder that has the same files."""
    made.mkdir(parents=True, exist_ok=True)
    for name in ("bert", "teacher", "reviews.csv"):
        (made / name).symlink_to(folder / name)
    return made


TECHNIQUES = {
    "probe": "linear_probe\n" + SHORT,
    "solved": "linear_probe solver=lbfgs\n",
    "stored": "freeze all - head\ntrain epochs=3, batch=8, exact=false\n",
    "padded": "change data { tokenize max_length=24, padding=max_length }\nfreeze all - head\n" + SHORT,
    "depth": "freeze stem + stages(1)\nlayer_decay 0.8\nema 0.9\n" + SHORT,
    "first": "freeze first(50%)\nsam\n" + SHORT,
    "norms": "freeze all - (norms + head)\nlookahead\n" + SHORT,
    "lora": 'lora rank=2, on="*query" + "*value"\n' + SHORT,
    "dora": 'dora rank=2, on="*query"\n' + SHORT,
    "reinit": "reinit stages(3)\nswa\n" + SHORT,
    "soup": "l2_sp\nlogit_adjustment\nsoup\n" + SHORT,
    "phases": LATER + 'phase "all", epochs=1 { wise_ft }\n',
    "thaw": "thaw\ntrain epochs=4, batch=8\n",
    "student": 'change model, num_hidden_layers=1\ndistill teacher=transformers.auto("teacher", pretrained=true), '
    "weight=0.5\n" + SHORT,
    "balanced": "change data { sampler balanced }\ntrain epochs=2, batch=8, accumulate=2, clip=1.0\n",
    "bf16": "train epochs=2, batch=8, precision=bf16\n",
    "measured": "train epochs=2, batch=auto, precision=auto\n",
}


def test_techniques_train_on_texts(folder: Path, tmp_path: Path) -> None:
    """In one process of their own, which all of them share."""
    programs = []
    for name, lines in TECHNIQUES.items():
        place = beside(folder, tmp_path / name)
        (place / "base.leaven").write_text(START, encoding="utf-8")
        programs.append(at_work.program(place, f'extends "base.leaven"\n{lines}'))
    assert not at_work.run_each(programs)
    assert all(list(file.parent.glob("runs/*/*/model.bundle")) for file in programs)


# -- from a recipe to predictions, whatever is predicted

ASKED = {
    "classes": ('text="sentence", label="label"', lambda n: f"{(n % 2 and 'bad') or 'good'}"),
    "labels": (
        'text="sentence", labels="label"',
        lambda n: ";".join(["short"] * (n % 5 < 2) + ["even"] * (n % 2 == 0)),
    ),
    "numbers": ('text="sentence", target="label"', lambda n: f"{n % 7}"),
    "pairs": ('text=["sentence", "label"], label="other"', lambda n: "fine"),
}


@pytest.fixture(scope="module", params=sorted(ASKED))
def trained(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of a model that was trained on two batches."""
    ask, label = ASKED[request.param]
    place = tmp_path_factory.mktemp(request.param)
    (place / "bert").symlink_to(folder / "bert")
    rows = [f"{text},{label(n)},{n % 2}" for n, (text, _) in enumerate(tiny_bert.reviews(60))]
    (place / "table.csv").write_text("\n".join(["sentence,label,other", *rows, ""]), encoding="utf-8")
    recipe = f'model transformers.auto("bert", pretrained=true)\ndata csv("table.csv", {ask})\ntrain batch=8\n'
    at_work.run(at_work.program(place, recipe), "--quick")
    (file,) = place.glob("runs/*/*/model.bundle")
    return bundle.load(file)


def texts_of(model: Bundle) -> list[Any]:
    texts: list[Any] = [text for text, _ in tiny_bert.reviews(7)]
    return [(text, "fine") for text in texts] if model.manifest.takes.parts == 2 else texts


def test_a_copy_predicts_the_same(trained: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bundle"
    copy.write_bytes(trained.path.read_bytes())
    again = bundle.load(copy)
    for text in texts_of(trained):
        assert again(text).to_json(9) == trained(text).to_json(9)


def test_a_text_alone_and_among_others_is_predicted_the_same(trained: Bundle) -> None:
    for text, among in zip(texts_of(trained), trained(texts_of(trained)), strict=True):
        assert flat(among.to_json(9)) == pytest.approx(flat(trained(text).to_json(9)), rel=1e-4, abs=1e-5)


def test_evaluation_counts_every_text(trained: Bundle) -> None:
    table = trained.path.parents[3] / "table.csv"
    one, other = (trained.evaluate(table, batch=size) for size in (7, 60))
    assert str(one).startswith("60 texts\n")
    assert one.scores == pytest.approx(other.scores, rel=1e-4)


@pytest.mark.slow
def test_it_can_be_exported_for_texts_of_any_length(trained: Bundle, tmp_path: Path) -> None:
    exported = torch.export.load(trained.export("torch_export", tmp_path / "model.pt2")).module()
    inputs = collate([trained.prepare(text) for text in texts_of(trained)])
    with torch.inference_mode():
        expected = tasks.find(trained.task).exported(trained.model, trained.target)(inputs)  # type: ignore[union-attr]
        torch.testing.assert_close(exported(*inputs.values()), expected, rtol=1e-4, atol=1e-5)


def test_the_card_of_a_bundle_is_about_texts(trained: Bundle) -> None:
    assert "image" not in trained.card
    assert "tokenizer" in trained.card


@pytest.mark.parametrize("wrong", [3, "", "   ", {"text": "good"}, None])
def test_what_is_no_text_is_refused(trained: Bundle, wrong: object) -> None:
    with pytest.raises(Failure):
        trained(wrong)


def test_a_text_that_is_too_long_is_truncated_with_a_warning(trained: Bundle) -> None:
    long = "good " * 10_000
    with pytest.warns(Caution, match="a text has more than 64 tokens; the rest is cut off"):
        trained((long, "fine") if trained.manifest.takes.parts == 2 else long)


def test_an_empty_text_is_reported_as_empty(trained: Bundle) -> None:
    is_pair = trained.manifest.takes.parts == 2
    with pytest.raises(Failure, match="pair 1 lacks one of its texts" if is_pair else "the text is empty"):
        trained(("good", " ") if is_pair else " ")


def test_a_bundle_holds_no_pickle(trained: Bundle) -> None:
    names = zipfile.ZipFile(trained.path).namelist()
    assert "tokenizer/tokenizer.json" in names
    assert not [name for name in names if name.endswith((".bin", ".pkl", ".pt", ".pth"))]


def flat(plain: object) -> list[float]:
    """The numbers in plain data, in order."""
    match plain:
        case dict():
            return [number for value in plain.values() for number in flat(value)]
        case list():
            return [number for value in plain for number in flat(value)]
        case float() | int():
            return [float(plain)]
    return []


# -- resuming


def test_a_run_that_was_interrupted_ends_with_the_same_weights(folder: Path, tmp_path: Path) -> None:
    recipe = START + "train epochs=2, batch=8\n"
    whole, stopped = (at_work.program(beside(folder, tmp_path / name), recipe) for name in ("whole", "stopped"))
    at_work.run(whole)
    at_work.interrupt(stopped, at=at_work.Moment(step=4))
    at_work.run(stopped, "--resume", str(at_work.run_folder(stopped)))
    weights = [read_weights(next(file.parent.glob("runs/*/*/model.bundle"))) for file in (whole, stopped)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


# -- several processes


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(folder: Path, tmp_path: Path) -> None:
    without_dropout = "change model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0\n"  # random in each
    found = []
    for devices in (1, 2):
        place = beside(folder, tmp_path / str(devices))
        (place / "base.leaven").write_text(START, encoding="utf-8")
        recipe = f'extends "base.leaven"\n{without_dropout}train epochs=3, batch=8, devices={devices}\n'
        at_work.run(at_work.program(place, recipe))
        (table,) = place.glob("runs/*/*/metrics.csv")
        found.append(list(csv.DictReader(table.open(encoding="utf-8"))))
    assert len(found[0]) == len(found[1]) == 3
    for name in ("train.loss", "val.loss", "val.accuracy"):
        one, two = ([float(row[name]) for row in rows] for rows in found)
        assert two == pytest.approx(one, abs=2e-5), name


# -- the command line


def test_texts_are_predicted_from_arguments_files_and_tables(trained: Bundle, tmp_path: Path) -> None:
    takes = trained.manifest.takes
    is_pair = takes.parts == 2
    (tmp_path / "lines.txt").write_text("good\tfine\n\nbad\tfine\n" if is_pair else "good\n\nbad\n")
    given = ["good", "fine"] if is_pair else ["good"]
    assert len(takes.meant(given, ()).inputs) == 1
    assert len(takes.meant([str(tmp_path / "lines.txt")], ()).inputs) == 2
    assert len(takes.meant([str(trained.path.parents[3] / "table.csv")], ()).inputs) == 60
    found, problems, _ = takes.meant(["nowhere.csv"], ())
    assert not found
    assert problems[0].headline == "nowhere.csv does not exist"
    (tmp_path / "broken.csv").write_bytes(b"sentence,label\ngood,fine\n\xff,fine\n")
    found, problems, _ = takes.meant([str(tmp_path / "broken.csv")], ())
    assert not found, "not even the lines before the broken one"
    assert problems[0].headline.endswith("broken.csv can't be read: line 3 is not UTF-8 text")
    _, problems, _ = takes.meant([str(trained.path.parents[3] / "table.csv")], ["none"])
    assert "its columns are sentence, label, other" in problems[0].help


def test_a_model_that_writes_text_is_refused_when_it_runs(folder: Path, tmp_path: Path) -> None:
    made = tiny_bert.make(tmp_path / "gpt", architectures="BertModel")
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(
        json.dumps({**config, "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    )
    with pytest.raises(Failure, match="generates text"):
        text_model(made, 2)


def test_a_model_that_is_nowhere_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match="is not a folder here, and could not be downloaded") as failure:
        text_model("nobody/nothing", 2)
    assert "minilm" in failure.value.help


def test_adapters_alone_are_put_over_the_model_in_its_folder(folder: Path, tmp_path: Path) -> None:
    recipe = f'{START}lora rank=2, on="*query", merge=false\ntrain batch=8\n'
    at_work.run(at_work.program(beside(folder, tmp_path / "work"), recipe), "--quick")
    (file,) = (tmp_path / "work").glob("runs/*/*/model.bundle")
    assert file.stat().st_size < (folder / "bert" / "model.safetensors").stat().st_size + 30_000
    assert bundle.load(file)("the film was good").label in ("good", "bad")


# -- a head that is kept


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Path:
    """A BERT with a trained head, whose outputs are in another order than the classes of the reviews."""
    bias = (3.0, -3.0)  # whatever it reads, it finds good
    return tiny_bert.with_head(folder / "bert", folder / "classifier", "Good", "bad", bias=bias)


def test_labels_are_matched_with_a_kept_head_by_name(classifier: Path, tmp_path: Path) -> None:
    tiny_bert.write_csv(tmp_path / "reviews.csv")
    recipe = (
        f'model transformers.auto("{classifier}", pretrained=true, head=keep)\n'
        'data csv("reviews.csv", text="sentence", label="label")\noptimizer sgd(lr=1e-9)\ntrain epochs=1\n'
    )
    at_work.run(at_work.program(tmp_path, recipe))
    (file,) = tmp_path.glob("runs/*/*/model.bundle")
    model = bundle.load(file)
    assert model.classes == ("Good", "bad")
    assert model("the film was fine").label == "Good"
    rows = [("it was good", "Good"), ("it was great", "Good"), ("it was dull", "bad")]
    assert model.evaluate(rows).scores["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("source", "labels", "fact"),
    [
        ("classifier", "good,bad", None),
        ("classifier", "good,fine", "the model has no output for the class `fine`"),
        ("bert", "good,bad", "auto has no trained head to keep"),
    ],
)
def test_a_head_that_does_not_fit_is_not_kept(
    classifier: Path, tmp_path: Path, source: str, labels: str, fact: str | None
) -> None:
    one, other = labels.split(",")
    (tmp_path / "t.csv").write_text(f"text,label\nit was,{one}\nit is,{other}\n")
    model = f'model transformers.auto("{classifier.parent / source}", pretrained=true, head=keep)\n'
    recipe = f'{model}data csv("t.csv", text="text", label="label")\n'
    found = check(Source("r.leaven", recipe, tmp_path)).diagnostics
    assert [each.headline for each in found if each.id == "class-names"] == ([fact] if fact else [])
    assert has_errors(found) == bool(fact)


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("teacher", None),
        ("bert", "the head of the teacher auto has no trained weights"),
        ("classifier", "class 1 of the teacher is `Good`, but class 1 of the data is `bad`"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(classifier: Path, source: str, fact: str | None) -> None:
    recipe = f'{START}distill transformers.auto("{source}", pretrained=true)\n'
    found = check(Source("r.leaven", recipe, classifier.parent)).diagnostics
    assert [each.headline for each in found if each.is_error] == ([fact] if fact else [])


@pytest.mark.parametrize(("name", "is_same"), [("Good", True), ("good", False)])
def test_several_labels_are_not_mistaken_for_each_other(
    classifier: Path, tmp_path: Path, name: str, is_same: bool
) -> None:
    (tmp_path / "t.csv").write_text(f"text,labels\nit was,bad;{name}\nit is,bad\nit was good,{name}\n")
    model = f'model transformers.auto("{classifier}", pretrained=true, head=keep)\n'
    recipe = f'{model}data csv("t.csv", text="text", labels="labels")\n'
    found = [each.headline for each in check(Source("r.leaven", recipe, tmp_path)).diagnostics]
    assert found == ([] if is_same else ["the outputs of the model are Good, bad, the labels bad, good"])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"id2label": {"1": "bad", "0": "good"}}, ("good", "bad")),
        ({"id2label": {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}}, ("0", "1", "2")),
        ({}, ("0", "1")),
    ],
)
def test_outputs_without_names_are_numbers(told: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert labels_of({"architectures": ["BertForSequenceClassification"], **told}) == expected
    assert labels_of({"architectures": ["BertModel"], **told}) == ()


# -- modes


def test_dropout_is_on_in_training(folder: Path) -> None:
    """The library returns trained models in evaluation mode."""
    model = text_model(folder / "bert", 2, pretrained=True)
    assert all(module.training for module in model.modules())
