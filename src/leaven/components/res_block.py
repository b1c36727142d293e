"""Two convolutions with a shortcut around them (He et al., Deep Residual Learning for Image Recognition)."""

from torch import Tensor, nn


class ResBlock(nn.Module):
    """The basic block of a ResNet. The stride divides height and width, rounding up."""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.out_channels = channels
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.activation = nn.ReLU()
        self.drop_path: nn.Module | None = None  # where `stochastic_depth` leaves the branch out
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, images: Tensor) -> Tensor:
        change = self.activation(self.norm1(self.conv1(images)))
        change = self.norm2(self.conv2(change))
        if self.drop_path is not None:
            change = self.drop_path(change)
        output: Tensor = self.activation(self.shortcut(images) + change)
        return output
