"""The code of instance segmentation: that of detection, with masks."""

from dataclasses import dataclass
from typing import ClassVar

import leaven.tasks.detection.code as detection
from leaven.tasks.detection import samples
from leaven.tasks.detection.code import *  # noqa: F403
from leaven.tasks.detection.parts import Part
from leaven.tasks.instances.masks import MaskAP, Masks

__all__ = ["MaskAP"]
__all__ += detection.__all__


@dataclass(frozen=True)
class Samples(samples.Samples):  # type: ignore[no-redef]
    """Images with objects whose masks move along."""

    part: ClassVar[Part] = Masks()
