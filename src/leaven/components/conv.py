"""A convolution, then batch normalisation and an activation."""

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


class Conv(nn.Module):
    """Padded so that height and width are divided by the stride, rounding up."""

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        norm: bool = True,
        activation: Activation | None = "relu",
    ) -> None:
        super().__init__()
        self.out_channels = channels
        # An even window has no middle: it gets one more row and column of padding at the end.
        before, after = (kernel - 1) // 2, kernel // 2
        self.pad = nn.ZeroPad2d((before, after, before, after)) if before != after else nn.Identity()
        padding = before if before == after else 0
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=padding, bias=not norm)
        self.norm = nn.BatchNorm2d(channels) if norm else nn.Identity()
        self.activation = ACTIVATIONS[activation]() if activation else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        output: Tensor = self.activation(self.norm(self.conv(self.pad(images))))
        return output
