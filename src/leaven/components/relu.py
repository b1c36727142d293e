"""Positive values pass, the others become zero."""

from torch import nn


class Relu(nn.ReLU):
    """The same shape comes out."""

    def __init__(self) -> None:
        super().__init__()
