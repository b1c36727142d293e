"""Data sets as lists of items: found in folders, tables and Python objects, whatever kind of picture they hold."""

import csv
import io
import pickle
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Subset, TensorDataset
from torchvision import datasets

from leaven.runtime.data.datasets import Dataset, digits, image_folder, table
from leaven.runtime.data.images import open_image
from leaven.runtime.data.torch_datasets import StreamDataset, torchvision_dataset, user_dataset
from leaven.runtime.failures import BadFile, Caution, Failure
from leaven.tasks.classification import Label


def picture(file: Path, colour: tuple[int, int, int] = (200, 100, 50), size: tuple[int, int] = (8, 6)) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(file)
    return file


def folder(root: Path, counts: Mapping[str, int]) -> Path:
    for name, count in counts.items():
        for number in range(count):
            picture(root / name / f"{number}.png")
    return root


def names(items: Dataset) -> list[str]:
    return [Path(items.name(index)).name for index in range(len(items))]


# -- digits


def test_digits_are_grey_pictures_of_the_full_range() -> None:
    items = digits()
    assert (len(items), items.target.names) == (1797, tuple("0123456789"))
    first = items.load(0)
    assert (first.mode, first.size) == ("L", (8, 8))
    assert items.in_memory
    assert max(items.load(index).getextrema()[1] for index in range(20)) == 255


# -- folders


def test_sub_folders_are_the_classes_in_alphabetical_order(tmp_path: Path) -> None:
    items = image_folder(folder(tmp_path, {"bees": 2, "ants/deep/deeper": 1, "Zebras": 1}))
    assert items.target.names == ("Zebras", "ants", "bees")
    assert list(items.values or ()) == [0, 1, 2, 2]
    assert items.predefined == {}
    assert items.load(0).mode == "RGB"


@pytest.mark.parametrize(
    "spelling", [("train", "val", "test"), ("training", "valid", "testing"), ("train", "validation")]
)
def test_folders_named_like_parts_are_the_parts(tmp_path: Path, spelling: Sequence[str]) -> None:
    for part in spelling:
        folder(tmp_path / part, {"ants": 2, "bees": 1})
    items = image_folder(tmp_path)
    assert items.target.names == ("ants", "bees")
    assert {name: len(places) for name, places in items.predefined.items()} == dict.fromkeys(
        ("train", "val", "test")[: len(spelling)], 3
    )
    for part, places in zip(spelling, items.predefined.values(), strict=True):
        assert all(Path(items.name(place)).parts[-3] == part for place in places)


def test_what_is_hidden_or_no_picture_is_left_out(tmp_path: Path) -> None:
    folder(tmp_path, {"ants": 1, "bees": 1, ".ipynb_checkpoints": 1, "__MACOSX": 1, "ants/.hidden": 1})
    (tmp_path / "ants" / "notes.txt").write_text("no picture")
    (tmp_path / "ants" / "moving.gif").write_bytes(b"GIF89a")
    picture(tmp_path / "ants" / "._0.png")
    picture(tmp_path / "ants" / "LOUD.PNG")
    items = image_folder(tmp_path)
    assert items.target.names == ("ants", "bees")
    assert names(items) == ["0.png", "LOUD.PNG", "0.png"]


def test_a_class_of_railway_pictures_is_no_part(tmp_path: Path) -> None:
    assert image_folder(folder(tmp_path, {"train": 2, "bus": 1})).target.names == ("bus", "train")


@pytest.mark.parametrize(
    ("counts", "headline", "help"),
    [
        ({}, "`photos` has no sub-folders", "its own sub-folder"),
        ({"ants": 3}, "`photos` has only `ants`", "its own sub-folder"),
        ({"unpacked/ants": 1, "unpacked/bees": 1}, "`photos` has only `unpacked`", "`photos/unpacked`"),
        ({"ants": 1, "bees": 0}, "`photos/bees` is empty", "its own sub-folder"),
        ({"val/ants": 1, "val/bees": 1, "test/ants": 1}, "`photos` has `test`, `val` but no `train`", "photos/train"),
        ({"train/a": 1, "train/b": 1, "val/a": 1, "valid/a": 1}, "`photos` has both `val` and `valid`", "keep one"),
        (
            {"train/a": 1, "train/b": 1, "val/a": 1, "val/c": 1},
            "class `c` is in `photos/val` but not in `photos/train`",
            "",
        ),
    ],
)
def test_a_folder_that_can_not_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Mapping[str, int], headline: str, help: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder(Path("photos"), counts)
    for name in ["", *counts]:
        Path("photos", name).mkdir(parents=True, exist_ok=True)
    with pytest.raises(Failure) as caught:
        image_folder("photos")
    assert headline in caught.value.headline
    assert help in caught.value.help


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="nowhere` does not exist"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(Failure, match=r"0\.png` is a file, not a folder"):
        image_folder(picture(tmp_path / "0.png"))


# -- pictures of every kind


def stored(image: Image.Image, ending: str, **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    image.save(stream, ending, **options)
    stream.seek(0)
    return stream


def test_a_photograph_comes_upright() -> None:
    image = Image.new("RGB", (40, 20), "red")
    exif = Image.Exif()
    exif[0x0112] = 6
    assert open_image(stored(image, "JPEG", exif=exif)).size == (20, 40)
    assert open_image(stored(image, "JPEG")).size == (40, 20)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_damaged_note_beside_the_picture_does_no_harm() -> None:
    broken = b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff" + struct.pack(">I", 7)
    assert open_image(stored(Image.new("RGB", (40, 20), "red"), "JPEG", exif=broken)).size == (40, 20)


@pytest.mark.parametrize(
    ("image", "ending", "expected"),
    [
        (Image.new("RGB", (4, 4), (10, 20, 30)), "PNG", (10, 20, 30)),
        (Image.new("L", (4, 4), 77), "PNG", (77, 77, 77)),
        (Image.new("1", (4, 4), 1), "PNG", (255, 255, 255)),
        (Image.new("LA", (4, 4), (77, 0)), "PNG", (77, 77, 77)),
        (Image.new("RGBA", (4, 4), (10, 20, 30, 128)), "PNG", (10, 20, 30)),
        (Image.new("RGB", (4, 4), (10, 20, 30)).quantize(4), "PNG", (10, 20, 30)),
        (Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF", (255, 0, 0)),
        (Image.fromarray(np.full((4, 4), 257 * 100, dtype=np.uint16)), "PNG", (100, 100, 100)),
        (Image.fromarray(np.full((4, 4), 257 * 100, dtype=np.int32)), "TIFF", (100, 100, 100)),
        (Image.fromarray(np.full((4, 4), 0.5, dtype=np.float32)), "TIFF", (128, 128, 128)),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else None,
)
def test_every_kind_of_picture_becomes_colours(image: Image.Image, ending: str, expected: tuple[int, int, int]) -> None:
    opened = open_image(stored(image, ending))
    assert opened.mode == "RGB"
    assert opened.getpixel((1, 1)) == expected


def test_a_palette_with_transparency_is_opened_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    image = Image.new("RGB", (4, 4), (10, 20, 30)).quantize(4)
    assert open_image(stored(image, "PNG", transparency=bytes([0, 255, 255, 255]))).mode == "RGB"
    assert not recwarn.list


def test_grey_pictures_may_stay_grey() -> None:
    assert open_image(stored(Image.new("L", (4, 4), 77), "PNG"), mode="L").mode == "L"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"<html>not found</html>", "it is not an image"),
        (stored(Image.effect_noise((64, 64), 90), "JPEG").getvalue()[:900], "it is truncated"),
        (stored(Image.effect_noise((64, 64), 90), "PNG").getvalue()[:900], "it is truncated"),
        (stored(Image.effect_noise((64, 64), 90), "PNG").getvalue()[:30], ""),
        (None, "there is no such file"),
    ],
    ids=["empty", "html", "half a jpeg", "half a png", "hardly a png", "missing"],
)
def test_a_bad_file_is_named_with_what_to_do(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "bad.jpg"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile) as caught:
        open_image(file)
    assert str(file) in caught.value.headline
    assert caught.value.headline.endswith(reason)
    assert "on_bad_file skip" in caught.value.help


def test_a_bad_file_travels_between_processes() -> None:
    travelled = pickle.loads(pickle.dumps(BadFile("a.jpg", "it is empty")))
    assert (travelled.headline, travelled.file) == ("a.jpg can't be read: it is empty", "a.jpg")
    assert "skip" in travelled.help
    assert pickle.loads(pickle.dumps(Failure("so", "then"))).help == "then"


# -- tables


def write_table(file: Path, rows: Sequence[Sequence[str]], separator: str = ",") -> Path:
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=separator).writerows([("file", "kind"), *rows])
    return file


def test_a_table_names_pictures_beside_it(tmp_path: Path) -> None:
    folder(tmp_path, {"pictures": 3})
    rows = [("pictures/0.png", "ant"), ("pictures/1.png", "bee, wild"), ("pictures/2.png", "ant")]
    items = table(write_table(tmp_path / "all.csv", rows), image="file", target=Label("kind"))
    assert items.target.names == ("ant", "bee, wild")
    assert items.values == [0, 1, 0]
    assert items.load(2).size == (8, 6)
    tabs = table(write_table(tmp_path / "all.tsv", rows, "\t"), image="file", target=Label("kind"))
    assert tabs.values == items.values
    elsewhere = write_table(tmp_path / "names.csv", [("0.png", "ant"), ("1.png", "bee")], ";")
    assert len(table(elsewhere, image="file", target=Label("kind"), root=tmp_path / "pictures", separator=";")) == 2


def test_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    folder(tmp_path, {"p": 12})
    rows = [(f"p/{number}.png", str(number)) for number in range(12)]
    items = table(write_table(tmp_path / "t.csv", rows), image="file", target=Label("kind"))
    assert items.target.names[9:] == ("9", "10", "11")


def test_a_folder_of_tables_gives_the_parts(tmp_path: Path) -> None:
    folder(tmp_path, {"p": 4})
    write_table(tmp_path / "train.csv", [("p/0.png", "a"), ("p/1.png", "b"), ("p/2.png", "b")])
    write_table(tmp_path / "valid.csv", [("p/3.png", "a")])
    items = table(tmp_path, image="file", target=Label("kind"))
    assert items.predefined == {"train": range(3), "val": range(3, 4)}


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("picture,kind\n0.png,ant\n", "has no column `file`"),
        ("file,kind\n", "`t.csv` has no rows"),
        ("", "`t.csv` is empty"),
        ("file,kind\n0.png,ant\n1.png\n", "line 3 of `t.csv` has no label"),
        ("file,kind\n0.png,ant\n0.png,ant\n", "has only the class `ant`"),
        ("file,kind\nnone.png,ant\n0.png,bee\n", "none.png`, the first image of `t.csv`, does not exist"),
        ("file,kind\n0.png,\udcff\n", "`t.csv` is not UTF-8 text"),
    ],
)
def test_a_table_that_can_not_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, headline: str
) -> None:
    monkeypatch.chdir(tmp_path)
    picture(Path("0.png"))
    Path("t.csv").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(Failure, match=headline):
        table("t.csv", image="file", target=Label("kind"))


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="does not exist"):
        table(tmp_path / "t.csv", image="file")
    with pytest.raises(Failure, match=r"has no `train\.csv`"):
        table(tmp_path, image="file")


# -- torchvision's sets


def write_mnist(root: Path, count: int) -> None:
    """A tiny MNIST in the files' own format."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        labels = bytes(number % 10 for number in range(count))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)
        pixels = bytes(28 * 28 * count)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pixels)


def test_official_parts_are_given(tmp_path: Path) -> None:
    write_mnist(tmp_path, 20)
    items = torchvision_dataset(datasets.MNIST, root=tmp_path, download=False)
    assert items.predefined == {"train": range(20), "test": range(20, 40)}
    assert items.values is not None
    assert (items.target.names[3], items.values[23], items.in_memory) == ("3 - three", 3, True)
    assert (items.load(23).mode, items.name(23)) == ("L", "sample 3 of MNIST")


def test_a_set_without_parts_is_one_list() -> None:
    items = torchvision_dataset(datasets.FakeData, size=12, image_size=(3, 8, 8), num_classes=4)
    assert (len(items), items.predefined, len(items.target.names)) == (12, {}, 4)


def test_parts_may_be_chosen_by_any_argument(tmp_path: Path) -> None:
    folder(tmp_path / "a", {"ants": 2, "bees": 1})
    folder(tmp_path / "b", {"ants": 1, "bees": 1})
    parts = {"train": {"root": tmp_path / "a"}, "val": {"root": tmp_path / "b"}}
    items = torchvision_dataset(datasets.ImageFolder, splits=parts)
    assert (items.target.names, items.values) == (("ants", "bees"), [0, 0, 1, 0, 1])
    assert items.name(3) == str(tmp_path / "b/ants/0.png")


def test_images_in_memory_are_identified_by_their_pixels(tmp_path: Path) -> None:
    write_mnist(tmp_path, 20)
    items = torchvision_dataset(datasets.MNIST, root=tmp_path, download=False)
    assert items.digests is not None
    one = items.digests(np.array([3, 25]))
    assert one[0] == one[1], "all of them are black"
    file = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    content = bytearray(file.read_bytes())
    content[16 + 28 * 28 * 5] = 1
    file.write_bytes(bytes(content))
    again = torchvision_dataset(datasets.MNIST, root=tmp_path, download=False)
    assert again.digests is not None
    assert [x == y for x, y in zip(again.digests(np.array([3, 25])), one, strict=True)] == [True, False]


def test_images_in_files_are_identified_by_their_bytes(tmp_path: Path) -> None:
    folder(tmp_path, {"ants": 2, "bees": 2})
    items = torchvision_dataset(datasets.ImageFolder, root=tmp_path)
    assert items.digests is not None
    before = items.digests(np.arange(4))
    Image.new("RGB", (9, 9)).save(tmp_path / "bees" / "1.png")
    assert [x == y for x, y in zip(items.digests(np.arange(4)), before, strict=True)] == [True, True, True, False]


@pytest.mark.parametrize(
    "more", [{"transform": np.asarray}, {"loader": lambda file: Image.new("RGB", (8, 8))}], ids=["transform", "loader"]
)
def test_images_that_pass_through_other_code_are_not_identified(more: dict[str, Any], tmp_path: Path) -> None:
    folder(tmp_path, {"ants": 2, "bees": 2})
    assert torchvision_dataset(datasets.ImageFolder, root=tmp_path, **more).digests is None


def test_splits_that_are_read_as_classes_are_pointed_out(tmp_path: Path) -> None:
    folder(tmp_path, {"train": 2, "val": 1})
    with pytest.warns(Caution, match="the classes of ImageFolder have names of splits: train, val"):
        user_dataset(datasets.ImageFolder(str(tmp_path)))


def test_files_that_are_not_there_get_a_place_to_be_put(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=f"MNIST is not in {tmp_path}") as caught:
        torchvision_dataset(datasets.MNIST, root=str(tmp_path), download=False)
    assert f"{tmp_path}/MNIST/raw (train-images-idx3-ubyte.gz" in caught.value.help
    with pytest.raises(Failure, match=f"CIFAR10 is not in {tmp_path}") as caught:
        torchvision_dataset(datasets.CIFAR10, root=str(tmp_path), download=False)
    assert f"{tmp_path}/cifar-10-batches-py" in caught.value.help


# -- the user's own sets


class Own(TorchDataset[Any]):
    """A data set as a user writes it."""

    def __init__(self, labels: Sequence[Any], shift: int = 0, **attributes: Any) -> None:
        self._hidden = labels
        self._shift = shift
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return len(self._hidden)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        label = self._hidden[index]
        return torch.full((3, 4, 4), float(index)), label + self._shift if self._shift else label


@pytest.mark.parametrize("given", [[0, 1, 1], torch.tensor([0, 1, 1]), np.array([0, 1, 1])])
def test_known_labels_are_used(given: Any) -> None:
    items = user_dataset(Own([0, 1, 1], targets=given, classes=["a", "b"]))
    assert isinstance(items, Dataset)
    assert (items.target.names, items.values) == (("a", "b"), [0, 1, 1])
    assert items.load(2)[0, 0, 0] == 2


def test_labels_that_the_items_contradict_are_not_used() -> None:
    items = user_dataset(Own([1, 2, 2], shift=-1, targets=[1, 2, 2], classes=["a", "b"]))
    assert isinstance(items, Dataset)
    assert items.values is None
    assert items.load(1)[1] == 1


def test_without_an_attribute_the_labels_are_the_classes() -> None:
    items = user_dataset(Own(["cat", "dog", "cat"]))
    assert isinstance(items, Dataset)
    assert (items.target.names, items.values) == (("cat", "dog"), [0, 1, 0])
    numbered = user_dataset(Own([torch.tensor(3), torch.tensor(10), torch.tensor(3)]))
    assert isinstance(numbered, Dataset)
    assert (numbered.target.names, numbered.values) == (("3", "10"), [0, 1, 0])


def test_subsets_and_tensors_know_their_labels() -> None:
    tensors = TensorDataset(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]))
    whole = user_dataset(tensors)
    assert isinstance(whole, Dataset)
    assert (whole.values, whole.in_memory) == ([0, 1, 0, 1], True)
    some = user_dataset(
        {"train": Subset(tensors, [0, 1, 3]), "val": Subset(tensors, [2])}, target=Label(names=("0", "1"))
    )
    assert isinstance(some, Dataset)
    assert (some.values, some.predefined) == ([0, 1, 1, 0], {"train": range(3), "val": range(3, 4)})


class Unreadable(Own):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        if index == 1:
            raise OSError("cannot identify image file")
        return super().__getitem__(index)


def test_an_item_that_can_not_be_read_is_a_bad_file() -> None:
    items = user_dataset(Unreadable([0, 1, 1], targets=[0, 1, 1]))
    with pytest.raises(BadFile, match="sample 1 of Unreadable can't be read"):
        items.load(1)  # type: ignore[union-attr]


class Flowing(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(torch.zeros(3, 4, 4), 0)])


@pytest.mark.parametrize(
    ("source", "headline"),
    [
        (
            Own([0, 5], num_classes=2, targets=[0, 5]),
            "sample 1 of Own has the class `5`, which is not one of the 2 known classes",
        ),
        (Own([0, 0]), "Own has only the class `0`"),
        (Own([]), "Own has no samples"),
        (Own([0.5, 1]), "sample 0 of Own has a label of type float"),
        (Flowing(), "the classes of Flowing are not known"),
        ({"first": Own([0, 1])}, "the dataset's splits are first"),
        ({"train": Own([0, 1]), "val": Flowing()}, "splits are IterableDatasets and others are not"),
        (7, "int is not a dataset"),
    ],
)
def test_a_set_that_can_not_be_meant(source: Any, headline: str) -> None:
    with pytest.raises(Failure, match=headline):
        user_dataset(source)


def test_a_label_that_does_not_exist_is_found_when_it_is_read() -> None:
    items = user_dataset(Own([0, 1, 7], classes=["a", "b"]))
    assert isinstance(items, Dataset)
    with pytest.raises(Failure, match="sample 2 of Own has the class `7`"):
        items.load(2)


def test_a_function_that_makes_a_dataset_is_called() -> None:
    made = user_dataset(lambda: Own([0, 1, 1], classes=["a", "b"]))
    assert isinstance(made, Dataset)
    assert [made.load(i)[1] for i in range(made.size)] == [0, 1, 1]


def test_a_stream_must_declare_its_classes() -> None:
    stream = user_dataset(Flowing(), target=Label(names=("a", "b")))
    assert isinstance(stream, StreamDataset)
    assert stream.target.names == ("a", "b")


def test_items_can_be_sent_to_another_process(tmp_path: Path) -> None:
    for items in (digits(), image_folder(folder(tmp_path, {"a": 1, "b": 1})), user_dataset(Own([0, 1]))):
        assert isinstance(items, Dataset)
        travelled = pickle.loads(pickle.dumps(items))
        assert (travelled.target.names, travelled.name(1)) == (items.target.names, items.name(1))
