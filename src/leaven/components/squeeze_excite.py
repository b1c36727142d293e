"""Weights for the channels, drawn from the whole image (Hu et al., Squeeze-and-Excitation Networks)."""

from torch import Tensor, nn


class SqueezeExcite(nn.Module):
    """Multiplies each channel by a weight between 0 and 1."""

    def __init__(self, in_channels: int, reduction: int = 16) -> None:
        super().__init__()
        middle = max(1, in_channels // reduction)
        self.reduce = nn.Linear(in_channels, middle)
        self.activation = nn.ReLU()
        self.expand = nn.Linear(middle, in_channels)
        self.gate = nn.Sigmoid()

    def forward(self, images: Tensor) -> Tensor:
        means = images.mean(dim=(2, 3))
        weights: Tensor = self.gate(self.expand(self.activation(self.reduce(means))))
        return images * weights[:, :, None, None]
