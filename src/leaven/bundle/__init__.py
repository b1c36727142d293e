"""The model that a stranger can use, in one file: saved by a program, loaded, asked, measured and exported by anyone.

    bundle.save("dogs.bundle", module, built_by=bundle.Timm("resnet18", num_classes=3), preprocess=steps, classes=names)
    bundle.load("dogs.bundle")("photo.jpg").top(3)

What a bundle holds is in `saving.py`, what a file must be to be taken for one in `archive.py`.
"""

from leaven.bundle.building import BuiltBy, Components, Own, Timm, Torchvision
from leaven.bundle.bundle import Bundle
from leaven.bundle.evaluation import Evaluation
from leaven.bundle.loading import load, load_model
from leaven.bundle.over import Over
from leaven.bundle.prediction import Prediction
from leaven.bundle.saving import save

__all__ = [
    "BuiltBy",
    "Bundle",
    "Components",
    "Evaluation",
    "Over",
    "Own",
    "Prediction",
    "Timm",
    "Torchvision",
    "load",
    "load_model",
    "save",
]
