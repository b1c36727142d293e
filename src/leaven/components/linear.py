"""A fully connected layer."""

from torch import nn


class Linear(nn.Linear):
    """From (batch, in_channels) to (batch, features)."""

    def __init__(self, in_channels: int, features: int) -> None:
        super().__init__(in_channels, features)
        self.out_channels = features
