"""The code of semantic segmentation: what needs torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from leaven.formats.target import Target
from leaven.runtime.data import samples
from leaven.runtime.data.annotated import masks_of
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.places import Place, size_of
from leaven.runtime.failures import Failure
from leaven.tasks.guesses import MostFrequentPixel
from leaven.tasks.protocol import Description
from leaven.tasks.reports import names_on_card
from leaven.tasks.scored import OutputScore, number_of
from leaven.tasks.scoring import Criterion, Evaluate, Judgement, Mean, Metrics
from leaven.tasks.segmentation.decoder import add_decoder
from leaven.tasks.segmentation.evaluation import Evaluation, Tally
from leaven.tasks.segmentation.masks import as_moved, as_target, largest_shares, read_mask
from leaven.tasks.segmentation.overlay import overlay, unmarked
from leaven.tasks.segmentation.prediction import Prediction, predictions
from leaven.tasks.segmentation.target import MaskClasses

__all__ = [
    "Evaluation", "Mean", "Metrics", "PixelLoss", "Prediction", "Samples", "Tally", "add_decoder", "describe",
    "evaluate", "exported", "fit_head", "folder", "output_score", "predictions", "row", "row_size",
]  # fmt: skip

AUXILIARY = 0.4  # of the loss of the auxiliary output
_ROW_SIDE = 2
_HEADS = ("classifier", "aux_classifier")


class Samples(samples.Samples):
    """Images with masks, which the transforms move together."""

    is_placed: ClassVar[bool] = True

    def given(self, image: Any, value: Any) -> tuple[Any, ...]:
        return image, as_moved(read_mask(value, size_of(image)))

    def targets(self, moved: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> Any:
        return torch.stack([as_target(mask) for (mask,) in moved])

    def caption(self, one: Any, target: Target) -> str:
        return "\n".join(largest_shares(_classes(one), target.names)) or "no class"

    def shown(self, pixels: np.ndarray, one: Any, target: Target) -> np.ndarray:
        assert isinstance(target, MaskClasses)
        return overlay(pixels, _classes(one), target)

    def count(self, one: Any) -> int:
        """How many classes have pixels."""
        return len(np.unique(classes[classes >= 0])) if (classes := _classes(one)).size else 0

    def placed(self, outputs: Any, places: Sequence[Place]) -> Any:
        """The class of each pixel of each image, in its own size."""
        return [_placed(one, place) for one, place in zip(logits_of(outputs), places, strict=True)]


def _classes(one: Any) -> np.ndarray:
    """A mask in a batch, or one that was moved, as numbers of classes."""
    classes: np.ndarray = (as_target(one) if type(one) is not Tensor else one).cpu().numpy()
    return classes


def _placed(logits: Tensor, place: Place) -> Tensor:
    middles = [torch.arange(side, device=logits.device) + 0.5 for side in place.size]
    across, down = (  # where the pixels of the image lie in the logits, from -1 to 1
        (middles[axis] - place.shift[axis]) / place.scale[axis] * 2 / logits.shape[-1 - axis] - 1 for axis in (0, 1)
    )
    grid = torch.stack(torch.meshgrid(down, across, indexing="ij")[::-1], dim=-1)[None]
    sampled = functional.grid_sample(logits[None].float(), grid, padding_mode="border", align_corners=False)
    return sampled[0].argmax(dim=0)


def logits_of(outputs: Any) -> Tensor:
    """The logits among the outputs of a model: torchvision's returns them by name, with auxiliary ones."""
    logits = outputs["out"] if isinstance(outputs, Mapping) else outputs
    if not isinstance(logits, Tensor) or logits.ndim != 4:
        raise Failure("the model does not return the logits of each pixel, of shape (N, classes, height, width)")
    return logits


class PixelLoss(nn.Module):
    """A loss of the logits, and of the auxiliary ones that some models return in training.

    A batch in which no pixel has a class has the loss 0: a mean over no pixels is not a number.
    """

    def __init__(self, loss: Criterion, auxiliary: float = AUXILIARY) -> None:
        super().__init__()
        self.loss = loss
        self.auxiliary = auxiliary

    def forward(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = self.loss(logits_of(outputs), targets)
        if torch.is_grad_enabled() and isinstance(outputs, Mapping) and "aux" in outputs:
            loss = loss + self.auxiliary * self.loss(outputs["aux"], targets)
        return torch.where((targets >= 0).any(), loss, torch.zeros_like(loss))


def fit_head(model: nn.Module, classes: int) -> None:
    """Give a model outputs for these classes: a model of torchvision new last layers, one of timm a decoder."""
    if hasattr(model, "forward_intermediates"):
        add_decoder(model, classes)
    else:
        replace_classifiers(model, classes)


def replace_classifiers(model: nn.Module, classes: int) -> None:
    """Give a model of torchvision new last layers."""
    for head in [getattr(model, name) for name in _HEADS if getattr(model, name, None) is not None]:
        layers = {path: each for path, each in head.named_modules() if isinstance(each, nn.Conv2d)}
        outputs = list(layers.values())[-1].out_channels
        for path, old in layers.items():
            if old.out_channels == outputs and old.kernel_size == (1, 1):
                parent, _, name = path.rpartition(".")
                new = nn.Conv2d(old.in_channels, classes, 1, bias=old.bias is not None)
                setattr(head.get_submodule(parent), name, new.to(old.weight.device))


def measured(outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The arguments of metrics: the predicted class of each pixel, and the actual one."""
    return logits_of(outputs).argmax(dim=1), targets


# at the size to which the images are resized: {"val.iou": 0.71}
evaluate = Evaluate(
    lambda target: Judgement(MostFrequentPixel(target.names, measured), measured),
    lambda outputs, target: predictions(list(logits_of(outputs).argmax(dim=1)), target),
)


class Logits(nn.Module):
    """A model that returns the logits of each pixel, and nothing else."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return logits_of(self.model(images))


def exported(model: nn.Module, target: MaskClasses) -> nn.Module:
    return Logits(model).eval()


def row(model: nn.Module, image: Tensor) -> Tensor:
    """The mean logits of each quarter of an image."""
    return functional.adaptive_avg_pool2d(logits_of(model(image[None])), _ROW_SIDE).flatten()


def row_size(target: MaskClasses) -> int:
    return len(target.names) * _ROW_SIDE**2


def folder(path: Path, target: MaskClasses, columns: Sequence[str]) -> Dataset:
    """A folder of images and masks with the model's classes."""
    return masks_of(path, target)


def describe(target: MaskClasses, inputs: str) -> Description:
    return Description(
        purpose=f"says which of {len(target.names)} classes each pixel of {inputs} belongs to",
        title="Classes",
        outputs=names_on_card(target.names),
        example=".shares",
    )


def output_score(outputs: Any, target: MaskClasses, wanted: str | None) -> OutputScore:
    """The mean logit of a class over the pixels of the first image that have it; by default of the largest class."""
    classes = logits_of(outputs)[0].argmax(dim=0)
    counts = classes.flatten().bincount(minlength=len(target.names))
    counts[: unmarked(target)] = 0  # the background, where there is anything else
    at = int(counts.argmax()) if wanted is None else number_of(wanted, target.names)
    pixels = classes == at
    if not pixels.any():
        raise Failure(f"no pixel has the class {target.names[at]}")
    return OutputScore(target.names[at], lambda found: logits_of(found)[:, at, pixels].mean(dim=1))
