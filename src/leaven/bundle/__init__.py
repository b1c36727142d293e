"""A trained model in one file: saved by a program; loaded, evaluated and exported by anyone.

    bundle.save("dogs.bundle", model, built_by=bundle.Timm("resnet18", num_classes=3), preprocess=eval_transform,
                target=data.target)
    bundle.load("dogs.bundle")("photo.jpg").top(3)

What a bundle holds is decided in `saving.py`, which files are accepted as one in `archive.py`.
"""

from leaven.bundle.building import BuiltBy, Components, Own, Timm, Torchvision
from leaven.bundle.bundle import Bundle
from leaven.bundle.from_run import note_change, save_run
from leaven.bundle.loading import load, load_model
from leaven.bundle.over import Over
from leaven.bundle.published import load_published
from leaven.bundle.saving import save

__all__ = [
    "BuiltBy", "Bundle", "Components", "Over", "Own", "Timm", "Torchvision", "load", "load_model", "load_published",
    "note_change", "save", "save_run",
]  # fmt: skip
