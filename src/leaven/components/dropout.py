"""A random part of the values becomes zero while training."""

from torch import nn


class Dropout(nn.Dropout):
    """The same shape comes out."""

    def __init__(self, probability: float = 0.5) -> None:
        super().__init__(probability)
