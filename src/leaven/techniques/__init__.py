"""Techniques: one class and one card each, all of the same shape.

A class takes what the recipe says and by name what the program has (`module`, `classes`, …); it has those methods that
it needs of the ones in `catalog/hooks.py`, and a program calls just these.
"""

from leaven.techniques.cutmix import Cutmix
from leaven.techniques.distill import Distill
from leaven.techniques.ema import Ema
from leaven.techniques.mixup import Mixup

__all__ = ["Cutmix", "Distill", "Ema", "Mixup"]
