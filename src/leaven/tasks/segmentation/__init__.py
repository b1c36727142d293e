"""Semantic segmentation: every pixel of an image has one of several classes."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.segmentation.target import MaskClasses, MaskFile, MaskReader, read_target

if TYPE_CHECKING:
    from leaven.tasks.segmentation.code import *  # noqa: F403

__all__ = ["MaskClasses", "MaskFile", "MaskReader", "read_target"]
__getattr__ = members_of_code(__name__)
