"""Small images first, full size at the end."""

from torch import Tensor
from torch.nn import functional as F

from leaven.runtime.run.phase import Phase


class ProgressiveResizing:
    """Makes the images of a batch smaller: to `start` of their size at first, to all of it after `until` epochs."""

    def __init__(self, start: float = 0.5, *, until: int, multiple: int = 4) -> None:
        self.until = until
        self.start = start
        self.multiple = multiple
        self.share = 1.0

    def before_epoch(self, phase: Phase) -> None:
        done = min(1.0, phase.epoch / self.until) if self.until else 1.0
        self.share = self.start + (1 - self.start) * done

    def on_batch(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        height, width = (self._made_smaller(side) for side in images.shape[-2:])
        if (height, width) != images.shape[-2:]:
            images = F.interpolate(images, size=(height, width), mode="bilinear", antialias=True)
        return images, targets

    def _made_smaller(self, side: int) -> int:
        if self.share >= 1:
            return side
        return min(side, max(1, round(side * self.share / self.multiple)) * self.multiple)
