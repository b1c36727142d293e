"""All values of an image in one row."""

from torch import nn


class Flatten(nn.Flatten):
    """From (batch, channels, height, width) to (batch, channels * height * width)."""

    def __init__(self) -> None:
        super().__init__()
