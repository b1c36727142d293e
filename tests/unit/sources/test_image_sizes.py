"""Whether images can be in one batch is decided by the headers of their files."""

from pathlib import Path

import pytest
from PIL import Image

from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.sources.image_sizes import image_sizes


def draw(folder: Path, *sizes: tuple[int, int]) -> None:
    """Images of these widths and heights, of two classes, and a table of them."""
    for at, size in enumerate(sizes):
        place = folder / "photos" / ("ants", "bees")[at % 2] / f"{at}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(place)
    rows = "".join(f"photos/{('ants', 'bees')[at % 2]}/{at}.png,{at % 2}\n" for at in range(len(sizes)))
    (folder / "t.csv").write_text(f"file,kind\n{rows}")


def reports(folder: Path, data: str, transforms: str) -> list[tuple[str, str]]:
    text = f"model resnet18()\ndata {data} {{ eval {transforms} }}\n"
    found = check(Source("r.leaven", text, folder)).diagnostics
    return [(f"{each.severity.value}[{each.id}]", "".join(each.notes)) for each in found]


@pytest.mark.parametrize("data", ['folder("photos")', 'csv("t.csv", image="file", label="kind")'])
def test_images_that_become_one_shape_are_right(tmp_path: Path, data: str) -> None:
    draw(tmp_path, (40, 40), (64, 64), (50, 50))
    assert reports(tmp_path, data, "resize(32)") == []
    assert "error[input-size]" in dict(reports(tmp_path, data, "to_image()"))


@pytest.mark.parametrize("data", ['folder("photos")', 'csv("t.csv", image="file", label="kind")'])
def test_images_that_differ_are_named(tmp_path: Path, data: str) -> None:
    draw(tmp_path, (40, 40), (64, 64), (60, 40))
    ((what, note),) = reports(tmp_path, data, "resize(32)")
    assert what == "error[input-size]"
    assert "becomes 32 x 32" in note
    assert "ants/2.png` becomes 32 x 48" in note


def test_images_of_one_size_need_no_resizing(tmp_path: Path) -> None:
    draw(tmp_path, (64, 48), (64, 48))
    assert reports(tmp_path, 'folder("photos")', "grayscale(3)") == []


def test_where_headers_can_not_be_read_it_is_a_warning(tmp_path: Path) -> None:
    draw(tmp_path, (40, 40), (40, 40))
    for file in (tmp_path / "photos").rglob("*.png"):
        file.write_bytes(b"")
    ((what, _),) = reports(tmp_path, 'folder("photos")', "resize(32)")
    assert what == "warning[input-size]"


def test_a_rotated_photo_is_as_large_as_it_is_loaded(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg", exif=turned)
    Image.new("RGB", (30, 40)).save(tmp_path / "b.jpg")
    assert image_sizes([str(tmp_path / "a.jpg"), str(tmp_path / "b.jpg")], tmp_path) == {(40, 30): "a.jpg"}
