"""The small ResNets for 32x32 images from "Deep Residual Learning for Image Recognition" (He et al., 2015).

A 3x3 convolution to 16 channels, three stages of n blocks with 16, 32 and 64 channels, and one linear layer: 6n + 2
layers in all. Where a stage halves the image and doubles the channels, the shortcut subsamples by 2 and pads the new
channels with zeros (the paper's option A), so that shortcuts have no parameters.

Parameters are named as in akamaster/pytorch_resnet_cifar10 (`conv1`, `bn1`, `layer1.0.conv1`, …, `linear`), so that
weights trained there fit here.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Shortcut(nn.Module):
    """Subsample by 2 and pad the channels with zeros, half on either side."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.padding = new_channels // 2

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))


class Block(nn.Module):
    """Two 3x3 convolutions with a residual connection."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity() if stride == 1 else Shortcut(channels - channels_in)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class CifarResNet(nn.Module):
    """A ResNet with `blocks` residual blocks in each of its three stages."""

    def __init__(self, blocks: int, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = stage(16, 16, blocks, stride=1)
        self.layer2 = stage(16, 32, blocks, stride=2)
        self.layer3 = stage(32, 64, blocks, stride=2)
        self.linear = nn.Linear(64, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    """A sequence of blocks; only the first changes the size."""
    first = Block(channels_in, channels, stride)
    return nn.Sequential(first, *(Block(channels, channels, stride=1) for _ in range(blocks - 1)))


def resnet20(classes: int = 10) -> CifarResNet:
    return CifarResNet(blocks=3, classes=classes)


def resnet32(classes: int = 10) -> CifarResNet:
    return CifarResNet(blocks=5, classes=classes)


def resnet44(classes: int = 10) -> CifarResNet:
    return CifarResNet(blocks=7, classes=classes)


def resnet56(classes: int = 10) -> CifarResNet:
    return CifarResNet(blocks=9, classes=classes)
