"""A tiny data set of drawn shapes with boxes and masks, in COCO's, Pascal VOC's and YOLO's formats."""

import json
from pathlib import Path

from PIL import Image, ImageDraw

NAMES = ("square", "ball")
COLORS = ((200, 40, 40), (40, 60, 200))
Box = tuple[int, int, int, int]


def shapes(number: int) -> tuple[tuple[int, int], list[tuple[int, Box]]]:
    """The size of image `number`, and its shapes: what each is, and its left, top, right and bottom."""
    size = ((48, 40), (40, 48), (44, 44))[number % 3]
    side = 14 + number % 5
    found = [(number % 2, (3 + number % 4, 4, 3 + number % 4 + side, 4 + side))]
    if number % 3 == 0:
        found.append((1 - number % 2, (size[0] - 16, size[1] - 16, size[0] - 2, size[1] - 2)))
    return size, found


def draw(folder: Path, count: int, ending: str = "png") -> None:
    """The images, as `00.png` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        size, found = shapes(number)
        image = Image.new("RGB", size, (235, 230 - number, 220))
        pen = ImageDraw.Draw(image)
        for kind, (left, top, right, bottom) in found:
            (pen.ellipse if kind else pen.rectangle)((left, top, right - 1, bottom - 1), fill=COLORS[kind])
        image.save(folder / f"{number:02}.{ending}")


def coco(count: int, first: int = 0) -> dict[str, object]:
    """Annotations in COCO's format; the ids of the categories are not consecutive."""
    images, annotations = [], []
    for number in range(first, first + count):
        (width, height), found = shapes(number)
        images.append({"id": number, "file_name": f"{number:02}.png", "width": width, "height": height})
        for kind, (left, top, right, bottom) in found:
            box = [left, top, right - left, bottom - top]
            outline = [left, top, right, top, right, bottom, left, bottom]
            one = {"image_id": number, "category_id": 3 + 4 * kind, "bbox": box, "segmentation": [outline]}
            annotations.append({"id": len(annotations) + 1, "area": box[2] * box[3], "iscrowd": 0, **one})
    categories = [{"id": 3 + 4 * kind, "name": name} for kind, name in enumerate(NAMES)]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_coco(folder: Path, count: int) -> None:
    """`images/`, and `boxes.json` beside it."""
    draw(folder / "images", count)
    (folder / "boxes.json").write_text(json.dumps(coco(count)), encoding="utf-8")


def write_yolo(folder: Path, count: int) -> None:
    draw(folder / "images", count)
    (folder / "labels").mkdir()
    (folder / "data.yaml").write_text(f"names:\n  0: {NAMES[0]}\n  1: {NAMES[1]}\n", encoding="utf-8")
    for number in range(count):
        (width, height), found = shapes(number)
        lines = [
            f"{kind} {(left + right) / 2 / width} {(top + bottom) / 2 / height} "
            f"{(right - left) / width} {(bottom - top) / height}"
            for kind, (left, top, right, bottom) in found
        ]
        (folder / "labels" / f"{number:02}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_voc(folder: Path, count: int) -> None:
    draw(folder / "JPEGImages", count)
    (folder / "Annotations").mkdir()
    for number in range(count):
        (width, height), found = shapes(number)
        objects = "".join(
            f"<object><name>{NAMES[kind]}</name><difficult>{int(number == 3)}</difficult>"
            f"<bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin>"
            f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
            for kind, (left, top, right, bottom) in found
        )
        size = f"<size><width>{width}</width><height>{height}</height></size>"
        text = f"<annotation><filename>{number:02}.png</filename>{size}{objects}</annotation>"
        (folder / "Annotations" / f"{number:02}.xml").write_text(text, encoding="utf-8")
