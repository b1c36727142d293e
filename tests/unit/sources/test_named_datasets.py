"""Datasets that are known by name, from tiny copies in their own layouts: from a check to a trained model."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from tests import at_work, copies_of_datasets
from tests.copies_of_datasets import CIFAR10, photo

import leaven
from leaven import bundle, runtime
from leaven.catalog import own
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Source
from leaven.plain import named_datasets as plain_datasets
from leaven.plain.failures import Failure as PlainFailure
from leaven.program.standalone import standalone
from leaven.rules.checker import check
from leaven.runtime.failures import Failure

RECIPE = """
model conv(4) -> max_pool() -> global_pool() -> linear(classes)
data  {data} {{ eval resize([16, 16]) }}
train epochs=1, batch=8
"""
DIGITS = tuple("0123456789")
DOGS = ("Chihuahua", "Japanese spaniel", "African hunting dog")
WORDS = tuple(copies_of_datasets.WNIDS.values())
# What a recipe says, what makes the copy, the classes, and the samples for training and testing.
COPIES: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...], tuple[int, int]]] = {
    "mnist": ("mnist", copies_of_datasets.mnist, DIGITS, (20, 20)),
    "packed mnist": ("mnist", lambda root: copies_of_datasets.mnist(root, inside="", packed=True), DIGITS, (20, 20)),
    "fashion_mnist": (
        "fashion_mnist",
        lambda root: copies_of_datasets.mnist(root, inside="FashionMNIST/raw"),
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        (20, 20),
    ),
    "cifar10 of Python": ("cifar10", copies_of_datasets.cifar10, CIFAR10, (50, 10)),
    "binary cifar10": (
        "cifar10",
        lambda root: copies_of_datasets.cifar10(root, version="binary"),
        CIFAR10,
        (50, 10),
    ),
    "imagenet": ("imagenet", copies_of_datasets.imagenet, WORDS, (12, 6)),
    "imagenet of Kaggle": ("imagenet", lambda r: copies_of_datasets.imagenet(r, layout="kaggle"), WORDS, (12, 6)),
    "stanford_dogs": ("stanford_dogs", copies_of_datasets.stanford_dogs, DOGS, (12, 6)),
    "oxford_pets": (
        "oxford_pets",
        copies_of_datasets.oxford_pets,
        ("Abyssinian", "American Bulldog", "Yorkshire Terrier"),
        (12, 6),
    ),
}


def reports(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    return check(Source("recipe.leaven", text, folder)).diagnostics


def said(report: Diagnostic) -> str:
    return f"{report.headline}: {report.fix.message if report.fix else ''}"


@pytest.mark.parametrize("name", COPIES)
def test_from_a_copy_to_a_model(name: str, tmp_path: Path) -> None:
    source, make, classes, (train, test) = COPIES[name]
    make(tmp_path / "copy")
    recipe = RECIPE.format(data=f'{source}("copy")')
    assert [each for each in reports(recipe, tmp_path) if each.is_error] == []
    at_work.run(at_work.program(tmp_path, recipe), "--quick")
    (file,) = tmp_path.glob("runs/*/*/model.bundle")
    assert bundle.load(file).target.names == classes
    dataset = getattr(runtime, source)(tmp_path / "copy")
    sizes = {split: len(there) for split, there in dataset.predefined.items()}
    assert sizes == {"train": train, "val" if source == "imagenet" else "test": test}
    assert dataset.digests is not None, "what is computed from its images can be stored"


@pytest.mark.parametrize("name", COPIES)
def test_a_check_knows_what_a_run_will_read(name: str, tmp_path: Path) -> None:
    source, make, classes, (train, test) = COPIES[name]
    make(tmp_path / "copy")
    recipe = check(Source("recipe.leaven", RECIPE.format(data=f'{source}("copy")'), tmp_path)).recipe
    assert recipe is not None
    assert recipe.data.outputs == len(classes)
    assert recipe.data.samples is not None
    assert sum(recipe.data.samples) == train + test


@pytest.mark.slow
def test_standalone_programs_read_the_same_copies(tmp_path: Path) -> None:
    programs = []
    for number, (source, make, _, _) in enumerate(COPIES.values()):
        folder = tmp_path / str(number)
        make(folder / "copy")
        if (folder / "copy/ILSVRC").is_dir():
            continue
        recipe = RECIPE.format(data=f'{source}("copy")')
        (folder / "recipe.leaven").write_text(recipe)
        with chdir(folder):
            (folder / "alone.py").write_text(standalone(leaven.make_plan(folder / "recipe.leaven")))
        programs.append(str(folder / "alone.py"))
    runner = "import os, runpy, sys\nfor file in sys.argv[1:]:\n    os.chdir(os.path.dirname(file))\n"
    runner += "    sys.argv = [file]\n    runpy.run_path(file, run_name='__main__')\n"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", runner, *programs], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*/runs/*/*/model.pth"))) == len(programs)


def test_standalone_programs_report_what_is_missing(tmp_path: Path) -> None:
    for name in ("stanford_dogs", "oxford_pets"):
        with pytest.raises(PlainFailure, match="has no"):
            getattr(plain_datasets, name)(str(tmp_path))
    for name in ("mnist", "fashion_mnist", "cifar10"):
        with pytest.raises(PlainFailure, match="has no"):
            getattr(plain_datasets, name)(str(tmp_path), download=False)


def test_cards_name_the_classes_of_the_files(tmp_path: Path) -> None:
    for source in ("mnist", "fashion_mnist", "cifar10"):
        card = own.read("data", source)
        assert card is not None
        make = next(make for name, make, _, _ in COPIES.values() if name == source)
        make(tmp_path / source)
        assert getattr(runtime, source)(tmp_path / source).target.names == card.data.class_names


def test_cifar100_has_its_fine_classes(tmp_path: Path) -> None:
    for version in ("python", "binary"):
        copies_of_datasets.cifar100(tmp_path / version, version=version)
        dataset = runtime.cifar100(tmp_path / version, download=False)
        assert dataset.target.names[:2] == ("fine_0", "fine_1")
        assert dataset.values is not None
        assert dataset.values[-1] == 19


def test_both_versions_of_cifar_are_the_same_images(tmp_path: Path) -> None:
    for version in ("python", "binary"):
        copies_of_datasets.cifar10(tmp_path / version, version=version)
    one, other = (runtime.cifar10(tmp_path / version, download=False) for version in ("python", "binary"))
    assert one.load(7).tobytes() == other.load(7).tobytes()
    assert one.values == other.values


def test_a_pickle_that_calls_something_is_refused(tmp_path: Path) -> None:
    copies_of_datasets.cifar10(tmp_path)

    class Harmful:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path}/harm",)

    (tmp_path / "cifar-10-batches-py/data_batch_3").write_bytes(pickle.dumps({"data": Harmful()}))
    with pytest.raises(Failure, match=r"data_batch_3 can't be read: it would call \w+\.system"):
        runtime.cifar10(tmp_path, download=False)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("layout", ["meta.bin", "classes"])
def test_imagenet_needs_neither_devkit_nor_splits(layout: str, tmp_path: Path) -> None:
    copies_of_datasets.imagenet(tmp_path, layout=layout)
    dataset = runtime.imagenet(tmp_path)
    assert dataset.target.names == WORDS
    assert dataset.target.value("n02085620") == 1


def test_validation_images_of_other_classes_are_left_out_and_counted(tmp_path: Path) -> None:
    copies_of_datasets.imagenet(tmp_path / "copy", layout="kaggle")
    shutil.rmtree(tmp_path / "copy/ILSVRC/Data/CLS-LOC/train" / next(iter(copies_of_datasets.WNIDS)))
    checked = check(Source("recipe.leaven", RECIPE.format(data='imagenet("copy")'), tmp_path))
    assert checked.recipe is not None
    assert checked.recipe.data.samples == (8, 4, 0)
    (report,) = checked.diagnostics
    assert "2 of 6 images in `val` are left out" in said(report)
    with pytest.warns(runtime.Caution, match="2 of 6 images in `val` are left out"):
        assert len(runtime.imagenet(tmp_path / "copy")) == 8 + 4


def test_a_table_of_validation_images_with_other_columns_is_named(tmp_path: Path) -> None:
    copies_of_datasets.imagenet(tmp_path / "copy", layout="kaggle")
    (tmp_path / "copy/LOC_val_solution.csv").write_text("image,label\nILSVRC2012_val_00000001,n01440764\n")
    (report,) = reports(RECIPE.format(data='imagenet("copy")'), tmp_path)
    assert "does not have the columns `ImageId` and `PredictionString`" in said(report)


def test_classes_of_imagenet_may_have_names_in_words(tmp_path: Path) -> None:
    for number, name in enumerate(("tench", "dogs")):
        photo(tmp_path / "train" / name / "0.jpg", number)
        photo(tmp_path / "val" / name / "1.jpg", 2 + number)
    assert runtime.imagenet(tmp_path).target.names == ("dogs", "tench")


def test_a_published_head_is_kept_on_imagenet_and_its_dogs(tmp_path: Path) -> None:
    copies_of_datasets.imagenet(tmp_path / "imagenet")
    copies_of_datasets.stanford_dogs(tmp_path / "dogs")
    for data in ('imagenet("imagenet")', 'stanford_dogs("dogs")'):
        text = f"model efficientnet_lite0(pretrained=true, head=keep)\ndata {data}\n"
        assert [said(each) for each in reports(text, tmp_path) if each.is_error] == []


def test_dogs_without_lists_are_split_at_random(tmp_path: Path) -> None:
    copies_of_datasets.stanford_dogs(tmp_path / "dogs", has_lists=False)
    (report,) = reports(RECIPE.format(data='stanford_dogs("dogs")'), tmp_path)
    assert not report.is_error
    assert "has no `train_list.mat` and `test_list.mat`, so the split is random" in said(report)
    with pytest.warns(runtime.Caution, match="the split is random"):
        assert len(runtime.stanford_dogs(tmp_path / "dogs")) == 18


def test_folders_of_dogs_without_images_are_no_classes(tmp_path: Path) -> None:
    copies_of_datasets.stanford_dogs(tmp_path / "dogs", has_lists=False)
    (tmp_path / "dogs/Images/n02099999-empty").mkdir()
    photo(tmp_path / "dogs/Images/mine/1.jpg", 1)
    checked = check(Source("recipe.leaven", RECIPE.format(data='stanford_dogs("dogs")'), tmp_path))
    assert checked.recipe is not None
    assert checked.recipe.data.outputs == 3
    with pytest.warns(runtime.Caution):
        dataset = runtime.stanford_dogs(tmp_path / "dogs")
    assert (len(dataset.target.names), len(dataset)) == (3, sum(checked.recipe.data.samples or ()))


@pytest.mark.parametrize(
    ("data", "files", "told"),
    [
        ('mnist("d", download=false)', [], "MNIST is not in `d`: put `train-images-idx3-ubyte`"),
        ('mnist("d", download=false)', ["train-images-idx3-ubyte"], "`d` has no `train-labels-idx1-ubyte`"),
        ('cifar10("d", download=false)', [], "put its files into `d/cifar-10-batches-bin` or `d/cifar-10-batches-py`"),
        ('cifar10("d", download=false)', ["cifar-10-python.tar.gz"], "`tar xf d/cifar-10-python.tar.gz -C d`"),
        ('cifar10("d", download=false)', ["cat/1.jpg", "dog/1.jpg"], 'write `folder("d")`'),
        ('imagenet("d")', [], "ImageNet grants access on request"),
        ('imagenet("d")', ["ILSVRC2012_img_val.tar"], "ImageNet; ImageNet('d', 'val')"),
        ('stanford_dogs("d")', [], "download images.tar and lists.tar"),
        ('stanford_dogs("d")', ["images.tar"], "unpack it: `tar xf d/images.tar -C d`"),
        ('oxford_pets("d")', [], "`download=true` downloads them (800 MB)"),
        ('oxford_pets("d")', ["images.tar.gz"], "unpack them: `tar xf d/images.tar.gz -C d`"),
    ],
)
def test_files_that_are_missing_are_named_before_anything_runs(
    data: str, files: list[str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    for file in files:
        (tmp_path / "d" / file).parent.mkdir(exist_ok=True)
        (tmp_path / "d" / file).write_bytes(b"")
    (report,) = [each for each in reports(RECIPE.format(data=data), tmp_path) if each.is_error]
    assert report.id == "missing-file"
    assert told in said(report)


def test_files_that_will_be_downloaded_are_not_missed(tmp_path: Path) -> None:
    assert [each for each in reports(RECIPE.format(data='mnist("d")'), tmp_path) if each.is_error] == []
    assert [each for each in reports(RECIPE.format(data='cifar10("d")'), tmp_path) if each.is_error] == []


def test_damaged_files_are_named(tmp_path: Path) -> None:
    copies_of_datasets.mnist(tmp_path / "mnist")
    labels = tmp_path / "mnist/MNIST/raw/train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-3])
    with pytest.raises(Failure, match="train-labels-idx1-ubyte is truncated"):
        runtime.mnist(tmp_path / "mnist")
    (tmp_path / "mnist/MNIST/raw/train-images-idx3-ubyte").write_bytes(b"<html>not found</html>")
    (report,) = reports(RECIPE.format(data='mnist("mnist")'), tmp_path)
    assert "train-images-idx3-ubyte is not an idx file of images" in said(report)
    copies_of_datasets.oxford_pets(tmp_path / "pets", inside="")
    (tmp_path / "pets/annotations/test.txt").write_text("Abyssinian_1\n")
    (report,) = reports(RECIPE.format(data='oxford_pets("pets")'), tmp_path)
    assert "`pets/annotations/test.txt` can't be read" in said(report)
