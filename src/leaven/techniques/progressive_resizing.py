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
        sides = images.shape[-2:]
        smaller = [max(1, round(side * self.share / self.multiple)) * self.multiple for side in sides]
        size = tuple(map(min, sides, smaller))
        if self.share < 1 and size != sides:
            images = F.interpolate(images, size=size, mode="bilinear", antialias=True)
        return images, targets
