"""Can it learn? A small detector on a handful of photos, measured on the same photos, by Leaven and by pycocotools.

    python bench/detection.py DATA        # a folder with coco128/ and mobilenet_v2_in1k_trunk/

The photos are the first of COCO that have one to four large objects. The trunk was trained on ImageNet; the rest starts
from scratch. `leaven evaluate` measures the trained model; pycocotools measures it again, from what `leaven predict`
says of the same photos.
"""

import contextlib
import io
import json
import shutil
import time
from collections import defaultdict
from pathlib import Path

from command_line import CommandLine

import leaven

PHOTOS = 8
HERE = Path(__file__).with_name("detection")
RECIPE = """
import "small_detector.py" as small

model small.detector(trunk="{trunk}")
data  coco("images", "photos.json", val="photos.json") {{ train to_tensor() }}
optimizer adamw(lr=5e-4)
schedule  constant()
train     epochs={epochs}, batch=2
early_stop val.map_50, patience=8
"""


def main() -> None:
    line = CommandLine(__doc__, data="a folder with coco128/ and mobilenet_v2_in1k_trunk/")
    line.add("--epochs", type=int, default=40, help="at most (default: %(default)s)")
    args = line.read(epochs=1)
    categories = choose_photos(args.data / "coco128", args.work)
    shutil.copy(HERE / "small_detector.py", args.work)
    (trunk,) = (args.data / "mobilenet_v2_in1k_trunk").glob("*.safetensors")
    recipe = args.work / "photos.leaven"
    recipe.write_text(RECIPE.format(trunk=trunk, epochs=args.epochs))
    began = time.perf_counter()
    run = leaven.run(recipe)
    seconds = time.perf_counter() - began
    model = leaven.load(run.folder, trust_code=True)
    with contextlib.chdir(args.work):
        ours = model.evaluate(folder_of_photos(args.work)).scores
    theirs = by_pycocotools(model, args.work)
    print(f"{PHOTOS} photos, {categories} categories, {len(run.curve)} epochs, {seconds:.0f} s")
    print(f"leaven       map {ours['map']:.4f}  map_50 {ours['map_50']:.4f}")
    print(f"pycocotools  map {theirs[0]:.4f}  map_50 {theirs[1]:.4f}")


def choose_photos(coco: Path, folder: Path) -> int:
    """Copy the photos with their annotations; how many categories they show."""
    content = json.loads((coco / "annotations" / "instances_train2017.json").read_text())
    objects = defaultdict(list)
    for one in content["annotations"]:
        objects[one["image_id"]].append(one)

    def is_simple(image):
        there, whole = objects[image["id"]], image["width"] * image["height"]
        return 1 <= len(there) <= 4 and all(not one["iscrowd"] and one["area"] > 0.03 * whole for one in there)

    images = [image for image in content["images"] if is_simple(image)][:PHOTOS]
    kept = [one for image in images for one in objects[image["id"]]]
    used = {one["category_id"] for one in kept}
    categories = [one for one in content["categories"] if one["id"] in used]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for image in images:
        shutil.copy(coco / "images" / "train2017" / image["file_name"], folder / "images")
    text = json.dumps({"images": images, "annotations": kept, "categories": categories})
    (folder / "photos.json").write_text(text)
    return len(categories)


def folder_of_photos(folder: Path) -> Path:
    """A folder with nothing but the photos and their annotations."""
    alone = folder / "alone"
    shutil.copytree(folder / "images", alone / "images", dirs_exist_ok=True)
    shutil.copy(folder / "photos.json", alone)
    return alone


def by_pycocotools(model, folder: Path) -> tuple[float, float]:
    """The mean average precision of what the model says, computed without Leaven."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(folder / "photos.json")
        ids = {one["name"]: one["id"] for one in truth.dataset["categories"]}
        found = [
            {
                "image_id": image["id"],
                "category_id": ids[one.label],
                "bbox": [one.box[0], one.box[1], one.box[2] - one.box[0], one.box[3] - one.box[1]],
                "score": one.score,
            }
            for image in truth.dataset["images"]
            for one in model(folder / "images" / image["file_name"]).every
        ]
        measured = COCOeval(truth, truth.loadRes(found), "bbox")
        measured.evaluate()
        measured.accumulate()
        measured.summarize()
    return float(measured.stats[0]), float(measured.stats[1])


if __name__ == "__main__":
    main()
