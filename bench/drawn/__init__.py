"""The data that benchmarks need, drawn: a few small files in the places of the real ones, for `--smoke`."""

import io
import json
import random
import zipfile
from pathlib import Path

from PIL import Image

FEW = {"train": 12, "val": 6}  # of each class


def draw(folder: Path) -> Path:
    """A folder with all that any benchmark reads; one that is there already is left as it is."""
    if not folder.is_dir():
        _draw_photos(folder / "hymenoptera" / "hymenoptera_data")
        _draw_archive(folder / "cifar10_jpg_subset" / "cifar10_subset.zip")
        _write_sentences(folder / "sst2_sentence")
        _draw_objects(folder / "coco128")
    return folder


def _noise(size: tuple[int, int], seed: int, colour: tuple[int, int, int]) -> Image.Image:
    """Noise in a colour, by which classes can be told apart."""
    noise = Image.effect_noise(size, 20 + seed % 40).convert("RGB")
    return Image.blend(noise, Image.new("RGB", size, colour), 0.5)


def _draw_photos(folder: Path) -> None:
    for split, count in FEW.items():
        for name, colour in (("ants", (200, 60, 40)), ("bees", (40, 90, 200))):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                _noise((64, 48), number, colour).save(folder / split / name / f"{number}.jpg")


def _draw_archive(file: Path) -> None:
    """As many images as the scripts choose from: 250 per class for training, 100 for testing."""
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w") as archive:
        for label, colour in enumerate(((200, 60, 40), (40, 90, 200))):
            content = io.BytesIO()
            _noise((32, 32), label, colour).save(content, "JPEG")
            for split, count in (("train", 250), ("test", 100)):
                for number in range(count):
                    archive.writestr(f"{split}/{label}/{number:04}.jpg", content.getvalue())


def _write_sentences(folder: Path) -> None:
    folder.mkdir()
    rng = random.Random(0)
    words = ("the", "film", "was", "so", "and", "but", "very", "really", "never", "a", "story", "it", "minute")
    for split, count in (("train", 256), ("dev", 64), ("test", 64)):
        lines = []
        for number in range(count):
            word = (("bad", "dull", "poor"), ("good", "great", "fine"))[number % 2][number % 3]
            lines.append(f"{' '.join(rng.choices(words, k=rng.randint(2, 20)))} {word}\t{number % 2}\n")
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")


def _draw_objects(folder: Path) -> None:
    """Photos with one large object each, annotated as COCO's are."""
    (folder / "annotations").mkdir(parents=True)
    (folder / "images" / "train2017").mkdir(parents=True)
    images, objects = [], []
    for at in range(1, 9):
        name, box = f"{at:012}.jpg", [20, 16, 48, 40]
        photo = Image.effect_noise((128, 96), 30).convert("RGB")
        photo.paste((250, 200, 20) if at % 2 else (30, 60, 220), (box[0], box[1], box[0] + box[2], box[1] + box[3]))
        photo.save(folder / "images" / "train2017" / name)
        images.append({"id": at, "file_name": name, "width": 128, "height": 96})
        kind = {"id": at, "image_id": at, "category_id": 1 + at % 2, "iscrowd": 0}
        objects.append({**kind, "bbox": box, "area": box[2] * box[3]})
    categories = [{"id": 1, "name": "blue"}, {"id": 2, "name": "yellow"}]
    told = {"images": images, "annotations": objects, "categories": categories}
    (folder / "annotations" / "instances_train2017.json").write_text(json.dumps(told))
    _write_trunk(folder.parent / "mobilenet_v2_in1k_trunk" / "features.safetensors")


def _write_trunk(file: Path) -> None:
    """Untrained weights in the place of torchvision's."""
    from safetensors.torch import save_file
    from torchvision.models import mobilenet_v2

    file.parent.mkdir()
    save_file({f"features.{name}": value for name, value in mobilenet_v2().features.state_dict().items()}, file)
