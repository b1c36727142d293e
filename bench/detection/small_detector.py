"""A small Faster R-CNN on a MobileNetV2 that was trained on ImageNet: what `bench/detection.py` trains."""

from functools import partial

from safetensors.torch import load_file
from torch import nn
from torchvision.models import mobilenet_v2
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.ops import MultiScaleRoIAlign
from torchvision.ops.misc import FrozenBatchNorm2d

CHANNELS = 96
WIDTH = 256


class Pooled(nn.Module):
    """What is in a box, as one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(CHANNELS * 7 * 7, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, boxes):
        return self.second(self.first(boxes.flatten(1)).relu()).relu()


def detector(num_classes: int, trunk: str, size: int = 224) -> nn.Module:
    """The first 14 blocks of the trunk, at a sixteenth of the size of the image, and a small head."""
    whole = mobilenet_v2(norm_layer=partial(FrozenBatchNorm2d, eps=1e-5))
    weights = {name: value for name, value in load_file(trunk).items() if not name.endswith("num_batches_tracked")}
    whole.load_state_dict(weights, strict=False)
    backbone = whole.features[:14]
    backbone.out_channels = CHANNELS
    return FasterRCNN(
        backbone,
        rpn_anchor_generator=AnchorGenerator(sizes=((32, 64, 128, 200),), aspect_ratios=((0.5, 1.0, 2.0),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], output_size=7, sampling_ratio=2),
        box_head=Pooled(),
        box_predictor=FastRCNNPredictor(WIDTH, num_classes),
        min_size=size,
        max_size=size * 4 // 3,
        rpn_pre_nms_top_n_train=500,
        rpn_post_nms_top_n_train=200,
        rpn_pre_nms_top_n_test=300,
        rpn_post_nms_top_n_test=100,
        box_batch_size_per_image=64,
    )
