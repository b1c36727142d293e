"""The training data as a picture: the first batch with its labels, and a sample after each transform; of texts, the
tokens of the first batch.

The data is that of the program, so a batch is the one that a run trains on. What techniques do to whole batches, such
as mixup, comes later and is not shown.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2 as T

from leaven.pictures.batch import Rows, Tile
from leaven.plan.plan import Plan
from leaven.plan.values import Bound
from leaven.runtime.data.batches import Data
from leaven.runtime.data.loading import transforms_in
from leaven.runtime.failures import Failure

SplitName = Literal["train", "val", "test"]
MOST = 32  # images of a batch
MOST_TEXTS = 16  # of a batch
WIDEST = 110  # letters of a line
_SLACK = 0.05  # by which pixels may leave the range from 0 to 1, as interpolation makes them


def look(plan: Plan, data: Data, split: SplitName = "train", epoch: int = 1) -> list[Rows]:
    """The stages of a sample, and the first batch of an epoch."""
    title, images, targets = _first_batch(data, split, epoch)
    is_train = split == "train"
    transforms = transforms_in(data.train_transform if is_train else data.eval_transform)
    # the recipe's name of each transform; empty for one that is only a part of another
    calls = (plan.data.train if is_train else plan.data.eval).calls
    names = [call.call.text or call.call.target if isinstance(call, Bound) else call.text for call in calls]
    if len(calls) != len(transforms):  # the data is built by user code
        names = [type(transform).__name__ for transform in transforms]
    stages = _stages(getattr(data, split).stages(epoch - 1), transforms, names, data)
    shown = [
        Tile(_marked(data, pixels(image, transforms), one), data.samples.caption(one, data.target))
        for image, one in zip(images[:MOST], targets[:MOST], strict=True)
    ]
    count = f"{len(shown)} of {len(images)} images" if len(images) > len(shown) else f"{len(images)} images"
    return [Rows("a sample after each transform", stages), Rows(f"{title}, {count}", shown)]


def look_at_texts(data: Data, split: SplitName, epoch: int) -> list[str]:
    """The labels and tokens of the first batch of an epoch, line by line."""
    title, inputs, targets = _first_batch(data, split, epoch)
    counted = inputs["attention_mask"].bool()
    padding = 100 * (1 - float(counted.float().mean()))
    size = f"{len(targets)} texts of up to {counted.shape[1]} tokens, {padding:.0f} % padding"
    labels = [data.samples.caption(one, data.target).replace("\n", ", ") for one in targets[:MOST_TEXTS]]
    width = max(map(len, labels))
    rows = []
    for label, ids, kept in zip(labels, inputs["input_ids"], counted, strict=False):
        tokenizer: Any = data.eval_transform
        tokens = " ".join(tokenizer.tokens({"input_ids": ids[kept]}))
        shown = tokens if len(tokens) <= WIDEST else f"{tokens[: WIDEST - 1]}…"
        rows.append(f"{label:<{width}}  {shown}")
    more = [f"… and {len(targets) - MOST_TEXTS} more"] if len(targets) > MOST_TEXTS else []
    return [f"{title}, {size}", "", *rows, *more]


def _first_batch(data: Data, split: SplitName, epoch: int) -> tuple[str, Any, Any]:
    """The first batch of an epoch: a title, the inputs and the targets."""
    part = getattr(data, split)
    batch = next(iter(part.batches(epoch - 1)), None) if len(part) else None
    if batch is None:
        raise Failure(f"the data has no samples for {split}")
    return f"first batch: {split}{f', epoch {epoch}' if split == 'train' else ''}", *batch


def _marked(data: Data, shown: np.ndarray | None, one: Any) -> np.ndarray | None:
    return None if shown is None else data.samples.shown(shown, one, data.target)


def _stages(
    stages: Sequence[tuple[Any, ...]], transforms: Sequence[Any], names: Sequence[str], data: Data
) -> list[Tile]:
    """A tile for each stage whose transform the recipe names."""
    tiles = []
    for at, (stage, *moved) in enumerate(stages):
        name = names[at - 1] if at else "as loaded"
        if name:
            shown = pixels(stage, transforms[:at])
            shown = _marked(data, shown, moved[0]) if moved else shown
            tiles.append(Tile(shown, f"{name}\n{_size(stage)}"))
    return tiles


def _size(stage: Any) -> str:
    """Width and height, and what kind of value it is."""
    match stage:
        case Image.Image():
            return f"{stage.width}×{stage.height}, {stage.mode}"
        case Tensor() | np.ndarray():
            shape = stage.shape[-2:] if isinstance(stage, Tensor) else stage.shape[:2]
            return f"{'×'.join(str(side) for side in reversed(shape))}, {str(stage.dtype).removeprefix('torch.')}"
    return type(stage).__name__


# -- pixels


def pixels(stage: Any, applied: Sequence[Any]) -> np.ndarray | None:
    """The pixels of an image of any kind, from 0 to 255, with normalisation undone; None for what is not an image."""
    match stage:
        case Image.Image():
            return np.asarray(stage.convert("L" if stage.mode in ("1", "L") else "RGB"))
        case np.ndarray() if stage.ndim == 2 or (stage.ndim == 3 and stage.shape[2] in (1, 3, 4)):
            return _eight_bits(torch.from_numpy(np.atleast_3d(stage).astype(np.float64)).permute(2, 0, 1), stage.dtype)
        case Tensor() if stage.ndim in (2, 3):
            values = (stage if stage.ndim == 3 else stage[None]).as_subclass(Tensor)
            return _eight_bits(_undone(values, applied), values.dtype)
    return None


def _undone(values: Tensor, applied: Sequence[Any]) -> Tensor:
    """The values before the last normalisation that was applied to them."""
    last = next((one for one in reversed(applied) if isinstance(one, T.Normalize)), None)
    if last is None or not values.is_floating_point():
        return values.double()
    mean, std = (torch.tensor(list(each), dtype=torch.float64)[:, None, None] for each in (last.mean, last.std))
    return (values.double() * std + mean).clamp(0, 1)


def _eight_bits(values: Tensor, dtype: Any) -> np.ndarray:
    """Channels × height × width as height × width × 3, or without channels where it is grey."""
    values = values[:3] if len(values) >= 3 else values[:1]
    values = values.nan_to_num()
    low, high = float(values.min()), float(values.max())
    if str(dtype).removeprefix("torch.") in ("uint8", "bool"):
        low, high = 0.0, 1.0 if high <= 1 and "bool" in str(dtype) else 255.0
    elif low >= -_SLACK and high <= 1 + _SLACK:
        low, high = 0.0, 1.0
    scaled = ((values - low) / ((high - low) or 1.0)).clamp(0, 1) * 255
    made = scaled.round().to(torch.uint8).permute(1, 2, 0).numpy()
    return made[:, :, 0] if made.shape[2] == 1 else made
