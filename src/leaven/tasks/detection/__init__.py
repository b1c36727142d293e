"""Detection: every image has objects, each with a category and a box."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.detection.target import Annotations, Categories, read_target

if TYPE_CHECKING:
    from leaven.tasks.detection.code import *  # noqa: F403

__all__ = ["Annotations", "Categories", "read_target"]
__getattr__ = members_of_code(__name__)
