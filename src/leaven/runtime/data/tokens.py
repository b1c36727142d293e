"""One text as a model takes it: token ids, which become a batch together with those of other texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class PaddingRule:
    """How texts of a batch get one length: with which numbers, on which side, and to which width if not the longest."""

    fills: Mapping[str, int] = field(default_factory=dict)
    is_left: bool = False
    width: int | None = None


class Tokens(dict[str, Tensor]):
    """The tensors of one text by name, each with a number per token."""

    def __init__(self, tensors: Mapping[str, Tensor], padding: PaddingRule = PaddingRule()) -> None:
        super().__init__(tensors)
        self.padding = padding

    def together(self, texts: Sequence["Tokens"]) -> dict[str, Tensor]:
        """Several texts as a batch."""
        lengths = [len(text["input_ids"]) for text in texts]
        width, is_left = self.padding.width or max(lengths), self.padding.is_left
        batch = {}
        for name in self:
            rows = np.full((len(texts), width), self.padding.fills.get(name, 0), dtype=np.int64)
            for row, text, length in zip(rows, texts, lengths, strict=True):
                row[width - length if is_left else 0 : width if is_left else length] = text[name].numpy()
            batch[name] = torch.from_numpy(rows)
        return batch
