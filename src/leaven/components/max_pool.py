"""The largest value of each small square."""

from torch import nn


class MaxPool(nn.MaxPool2d):
    """Height and width are divided by the size, rounding up."""

    def __init__(self, size: int = 2) -> None:
        super().__init__(size, ceil_mode=True)
