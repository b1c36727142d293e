"""What a model is trained on, where these are texts: the tokens of the first batch, with their labels."""

from typing import Any

from torch import Tensor

from leaven.lab.look import SplitName
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure

MOST = 16  # texts of a batch
WIDEST = 110  # letters of a line


def look(data: Data, split: SplitName = "train", epoch: int = 1) -> list[str]:
    """What there is to see of the first batch of an epoch, line by line."""
    part = getattr(data, split)
    batch = next(iter(part.batches(epoch - 1)), None) if len(part) else None
    if batch is None:
        raise Failure(f"the data has no samples for {split}")
    inputs, targets = batch
    counted = inputs["attention_mask"].bool()
    padding = 100 * (1 - float(counted.float().mean()))
    size = f"{len(targets)} texts of up to {counted.shape[1]} tokens, {padding:.0f} % padding"
    title = f"{split}, epoch {epoch}" if split == "train" else split
    labels = [data.samples.caption(one, data.target).replace("\n", ", ") for one in targets[:MOST]]
    width = max(map(len, labels))
    tokens = [_tokens(data.eval_transform, ids[kept]) for ids, kept in zip(inputs["input_ids"], counted, strict=True)]
    rows = [f"{label:<{width}}  {told}" for label, told in zip(labels, tokens, strict=False)]
    more = [f"… and {len(targets) - MOST} more"] if len(targets) > MOST else []
    return [f"first batch: {title}, {size}", "", *rows, *more]


def _tokens(tokenizer: Any, ids: Tensor) -> str:
    told = " ".join(tokenizer.tokens({"input_ids": ids}))
    return told if len(told) <= WIDEST else f"{told[: WIDEST - 1]}…"
