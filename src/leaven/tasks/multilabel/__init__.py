"""Multi-label image classification: every image has any number of labels."""

from typing import TYPE_CHECKING

from leaven.tasks import members_of_code
from leaven.tasks.multilabel.target import Labels, LabelSet, read_target

if TYPE_CHECKING:
    from leaven.tasks.multilabel.code import *  # noqa: F403

__all__ = ["LabelSet", "Labels", "read_target"]
__getattr__ = members_of_code(__name__)
