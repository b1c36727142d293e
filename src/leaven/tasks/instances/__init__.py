"""Instance segmentation: every image has objects, each with a category, a box and a mask."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.instances.target import MaskedAnnotations, MaskedCategories, read_target

if TYPE_CHECKING:
    from leaven.tasks.detection.code import *  # noqa: F403
    from leaven.tasks.instances.code import *  # noqa: F403

__all__ = ["MaskedAnnotations", "MaskedCategories", "read_target"]
__getattr__ = members_of_code(__name__)
