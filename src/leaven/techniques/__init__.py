"""Techniques: one class and one card each, all of the same shape.

A class takes what the recipe says and by name what the program has (`model`, `classes`, …); it has those methods that
it needs of the ones in `catalog/hooks.py`, and a program calls just these.
"""

from leaven.techniques.adapters.adapter import merge_adapters
from leaven.techniques.adapters.dora import Dora
from leaven.techniques.adapters.ia3 import Ia3
from leaven.techniques.adapters.lora import Lora
from leaven.techniques.cutmix import Cutmix
from leaven.techniques.distillation.distill import Distill
from leaven.techniques.distillation.distill_features import DistillFeatures
from leaven.techniques.ema import Ema
from leaven.techniques.gradient_centralization import GradientCentralization
from leaven.techniques.l2_sp import L2Sp
from leaven.techniques.layer_decay import LayerDecay
from leaven.techniques.logit_adjustment import LogitAdjustment
from leaven.techniques.lookahead import Lookahead
from leaven.techniques.mixup import Mixup
from leaven.techniques.progressive_resizing import ProgressiveResizing
from leaven.techniques.pruning.channels import Structured
from leaven.techniques.pruning.prune import Prune
from leaven.techniques.pruning.weights import Unstructured
from leaven.techniques.sam import Sam
from leaven.techniques.soup import Soup
from leaven.techniques.stochastic_depth import StochasticDepth
from leaven.techniques.swa import Swa
from leaven.techniques.wise_ft import WiseFt

__all__ = [
    "Cutmix", "Distill", "DistillFeatures", "Dora", "Ema", "GradientCentralization", "Ia3", "L2Sp", "LayerDecay",
    "LogitAdjustment", "Lookahead", "Lora", "Mixup", "ProgressiveResizing", "Prune", "Sam", "Soup", "StochasticDepth",
    "Structured", "Swa", "Unstructured", "WiseFt", "merge_adapters",
]  # fmt: skip
