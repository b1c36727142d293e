"""Image classification: every image has one of several classes."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.classification.target import Classes, Label, read_target

if TYPE_CHECKING:
    from leaven.tasks.classification.code import *  # noqa: F403

__all__ = ["Classes", "Label", "read_target"]
__getattr__ = members_of_code(__name__)
