"""Mean average precision, as COCO computes it (by pycocotools), and what is measured during training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics.detection import MeanAveragePrecision

from leaven.tasks.detection.masks import CERTAIN
from leaven.tasks.detection.samples import one_by_one
from leaven.tasks.guesses import NoObjects, of_all_processes
from leaven.tasks.scoring import Evaluate, Judgement

SCORES = ("map", "map_50", "map_75", "mar_100")
Found = Sequence[Mapping[str, Tensor]]


class MeanAP(MeanAveragePrecision):
    """Mean average precision of boxes: over ten overlaps from 0.5 to 0.95 (`map`), and at 0.5 and 0.75."""

    prefix = ""

    def __init__(self, iou_type: Any = "bbox", **options: Any) -> None:
        # pycocotools' own numbers: torchmetrics rounds them to single precision, where a recall of 0.3 is below 0.3
        usual = {
            "iou_thresholds": np.linspace(0.5, 0.95, 10).tolist(),
            "rec_thresholds": np.linspace(0, 1, 101).tolist(),
        }
        super().__init__(iou_type=iou_type, **{**usual, **options})
        self.warn_on_many_detections = False

    def _sync_dist(self, dist_sync_fn: Any = None, process_group: Any = None) -> None:
        """The images of all processes: torchmetrics gathers them one by one, and waits for ever where a process has
        fewer than another."""
        for state in self._reductions:
            own = [one.cpu() if isinstance(one, Tensor) else one for one in getattr(self, state)]
            setattr(self, state, of_all_processes(own, process_group))

    def compute(self) -> dict[str, Tensor]:
        """0 where there are no objects to be found."""
        found = super().compute()
        return {f"{self.prefix}{name}": found[name].clamp(min=0) for name in SCORES}


class MaskAP(MeanAP):
    """Mean average precision of masks: `mask_map`, `mask_map_50`."""

    prefix = "mask_"

    def __init__(self) -> None:
        super().__init__(iou_type="segm")


def found_in(model: nn.Module, batch: tuple[Any, Any]) -> Any:
    return one_by_one(model, batch[0])


def compared(outputs: Found, targets: Found) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """The detected and the actual objects, as the metrics take them."""
    return [_predicted(one) for one in outputs], [_actual(one) for one in targets]


def _predicted(output: Mapping[str, Tensor]) -> dict[str, Tensor]:
    predicted = {name: output[name] for name in ("boxes", "scores", "labels")}
    if "masks" in output:
        masks = output["masks"]
        predicted["masks"] = masks if masks.dtype == torch.bool else masks[:, 0] >= CERTAIN
    return predicted


def _actual(target: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The objects and the crowds: to find something in a crowd is neither right nor wrong."""
    boxes, crowds = target["boxes"], target["crowd_boxes"]
    is_crowd = torch.cat([torch.zeros(len(boxes)), torch.ones(len(crowds))]).to(boxes.device, torch.int64)
    actual = {
        "boxes": torch.cat([boxes, crowds]),
        "labels": torch.cat([target["labels"], target["crowd_labels"]]),
        "iscrowd": is_crowd,
    }
    if "masks" in target:
        masks = target["masks"]
        blank = masks.new_zeros((len(crowds), *masks.shape[1:]))
        actual["masks"] = torch.cat([masks, blank]).bool()
    return actual


evaluate = Evaluate(lambda target: Judgement(NoObjects(), compared), found_in)  # {"val.map": 0.31, "val.map_50": 0.52}
