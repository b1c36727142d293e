"""Image regression: every image has one or several numbers."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.regression.target import Numbers, Quantities, read_target

if TYPE_CHECKING:
    from leaven.tasks.regression.code import *  # noqa: F403

__all__ = ["Numbers", "Quantities", "read_target"]
__getattr__ = members_of_code(__name__)
