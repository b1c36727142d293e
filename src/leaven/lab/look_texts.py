"""The training data, where these are texts: the tokens of the first batch, with their labels."""

from typing import Any

from leaven.lab.look import SplitName
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure

MOST = 16  # texts of a batch
WIDEST = 110  # letters of a line


def look(data: Data, split: SplitName = "train", epoch: int = 1) -> list[str]:
    """The labels and tokens of the first batch of an epoch, line by line."""
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
    rows = []
    for label, ids, kept in zip(labels, inputs["input_ids"], counted, strict=False):
        tokenizer: Any = data.eval_transform
        tokens = " ".join(tokenizer.tokens({"input_ids": ids[kept]}))
        shown = tokens if len(tokens) <= WIDEST else f"{tokens[: WIDEST - 1]}…"
        rows.append(f"{label:<{width}}  {shown}")
    more = [f"… and {len(targets) - MOST} more"] if len(targets) > MOST else []
    return [f"first batch: {title}, {size}", "", *rows, *more]
