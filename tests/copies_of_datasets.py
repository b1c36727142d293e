"""Tiny copies of well-known datasets, in the layouts of their own archives."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

IDX = {"train": "train", "test": "t10k"}
WNIDS = {"n01440764": "tench, Tinca tinca", "n02085620": "Chihuahua", "n03126707": "crane (n03126707)"}
BREEDS = ("n02085620-Chihuahua", "n02085782-Japanese_spaniel", "n02116738-African_hunting_dog")
PETS = (("Abyssinian", 1, 1), ("american_bulldog", 2, 2), ("yorkshire_terrier", 3, 2))
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def photo(file: Path, seed: int, size: tuple[int, int] = (20, 16)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)).save(file)


def mnist(root: Path, *, inside: str = "MNIST/raw", packed: bool = False, each: int = 20) -> None:
    """The four idx files."""
    folder = root / inside
    folder.mkdir(parents=True)
    for split, name in enumerate(IDX.values()):
        pixels = np.random.default_rng(split).integers(0, 255, (each, 28, 28), np.uint8).tobytes()
        labels = bytes(number % 10 for number in range(each))
        files = {
            f"{name}-images-idx3-ubyte": struct.pack(">IIII", 2051, each, 28, 28) + pixels,
            f"{name}-labels-idx1-ubyte": struct.pack(">II", 2049, each) + labels,
        }
        for file, content in files.items():
            (folder / f"{file}{'.gz' * packed}").write_bytes(gzip.compress(content) if packed else content)


def cifar10(root: Path, *, version: str = "python", each: int = 10) -> None:
    """Five batches for training and one for testing, as pickles or in binary files."""
    folder = root / ("cifar-10-batches-py" if version == "python" else "cifar-10-batches-bin")
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{at}" for at in range(1, 6)), "test_batch"]):
        pixels = np.random.default_rng(number).integers(0, 255, (each, 3072), np.uint8)
        labels = [at % 10 for at in range(each)]
        if version == "python":
            batch = {"batch_label": name, "labels": labels, "data": pixels, "filenames": [f"{at}.png" for at in labels]}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            records = b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))
            (folder / f"{name}.bin").write_bytes(records)
    if version == "python":
        meta = {"label_names": list(CIFAR10), "num_vis": 3072, "num_cases_per_batch": each}
        (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    else:
        (folder / "batches.meta.txt").write_text("\n".join(CIFAR10) + "\n\n")


def cifar100(root: Path, *, version: str = "python") -> None:
    folder = root / ("cifar-100-python" if version == "python" else "cifar-100-binary")
    folder.mkdir(parents=True)
    names = [f"fine_{number}" for number in range(100)]
    for name, count in (("train", 100), ("test", 20)):
        pixels = np.random.default_rng(count).integers(0, 255, (count, 3072), np.uint8)
        fine, coarse = list(range(count)), [number // 5 for number in range(count)]
        if version == "python":
            batch = {"data": pixels, "fine_labels": fine, "coarse_labels": coarse}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            rows = zip(coarse, fine, pixels, strict=True)
            (folder / f"{name}.bin").write_bytes(b"".join(bytes([c, f]) + row.tobytes() for c, f, row in rows))
    if version == "python":
        (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=2))
    else:
        (folder / "fine_label_names.txt").write_text("\n".join(names) + "\n")


def imagenet(root: Path, *, layout: str = "torchvision") -> None:
    """Three classes: in torchvision's layout, with or without `meta.bin`, in Kaggle's, or just the classes."""
    if layout == "classes":
        for number, wnid in enumerate(WNIDS):
            for at in range(5):
                photo(root / wnid / f"{wnid}_{at}.JPEG", 10 * number + at)
        return
    top = root / "ILSVRC/Data/CLS-LOC" if layout == "kaggle" else root
    rows = ["ImageId,PredictionString"]
    for number, wnid in enumerate(WNIDS):
        for at in range(4):
            photo(top / "train" / wnid / f"{wnid}_{at}.JPEG", 10 * number + at)
        for at in range(2):
            name = f"ILSVRC2012_val_{2 * number + at + 1:08}"
            photo(top / "val" / ("" if layout == "kaggle" else wnid) / f"{name}.JPEG", 100 + 10 * number + at)
            rows.append(f"{name},{wnid} 1 2 3 4")
    if layout == "kaggle":
        (root / "LOC_val_solution.csv").write_text("\n".join(rows) + "\n")
    if layout == "meta.bin":
        words = {wnid: tuple(name.split(", ")) for wnid, name in WNIDS.items()}
        torch.save((words, [wnid for wnid in WNIDS for _ in range(2)]), root / "meta.bin")


def stanford_dogs(root: Path, *, has_lists: bool = True) -> None:
    """`images.tar`, `lists.tar` and `annotation.tar`, unpacked."""
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for number, breed in enumerate(BREEDS):
        wnid = breed.partition("-")[0]
        for at in range(6):
            photo(root / "Images" / breed / f"{wnid}_{at}.jpg", 10 * number + at)
            lists["train" if at < 4 else "test"].append(f"{breed}/{wnid}_{at}.jpg")
        (root / "Annotation" / breed).mkdir(parents=True)
        (root / "Annotation" / breed / f"{wnid}_0").write_text("<annotation/>")
    for split, files in lists.items() if has_lists else ():
        cells = np.empty((len(files), 1), dtype=object)
        cells[:, 0] = files
        labels = np.array([[BREEDS.index(file.partition("/")[0]) + 1] for file in files])
        savemat(root / f"{split}_list.mat", {"file_list": cells, "annotation_list": cells, "labels": labels})


def oxford_pets(root: Path, *, inside: str = "oxford-iiit-pet") -> None:
    """`images.tar.gz` and `annotations.tar.gz`, unpacked; trimaps have 1 for the pet, 2 for background, 3 between."""
    folder = root / inside
    lists: dict[str, list[str]] = {"trainval": [], "test": []}
    for breed, number, species in PETS:
        for at in range(6):
            photo(folder / "images" / f"{breed}_{at}.jpg", 10 * number + at)
            trimap = np.full((16, 20), 2, np.uint8)
            trimap[4:12, 4:16], trimap[5:11, 5:15] = 3, 1
            place = folder / "annotations/trimaps" / f"{breed}_{at}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(trimap).save(place)
            lists["trainval" if at < 4 else "test"].append(f"{breed}_{at} {number} {species} {number}")
    for name, lines in lists.items():
        (folder / "annotations" / f"{name}.txt").write_text("\n".join(lines) + "\n")
