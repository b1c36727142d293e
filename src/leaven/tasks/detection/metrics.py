"""Mean average precision, as COCO computes it (by pycocotools), and what is measured during training."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics.detection import MeanAveragePrecision

from leaven.tasks.detection.parts import BOX_ALONE, Part, part_of
from leaven.tasks.detection.prediction import predictions
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


def found_in(model: nn.Module, batch: tuple[Any, Any]) -> Any:
    return one_by_one(model, batch[0])


def compared(
    outputs: Found, targets: Found, part: Part = BOX_ALONE
) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """The detected and the actual objects, as the metrics take them."""
    found = [{name: one[name] for name in ("boxes", "scores", "labels")} | part.measured(one) for one in outputs]
    return found, [_actual(one) | part.measured(one, len(one["crowd_boxes"])) for one in targets]


def _actual(target: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The objects and the crowds: to find something in a crowd is neither right nor wrong."""
    boxes, crowds = target["boxes"], target["crowd_boxes"]
    is_crowd = torch.cat([torch.zeros(len(boxes)), torch.ones(len(crowds))]).to(boxes.device, torch.int64)
    return {
        "boxes": torch.cat([boxes, crowds]),
        "labels": torch.cat([target["labels"], target["crowd_labels"]]),
        "iscrowd": is_crowd,
    }


# {"val.map": 0.31, "val.map_50": 0.52}
evaluate = Evaluate(
    lambda target: Judgement(NoObjects(), partial(compared, part=part_of(target))),
    lambda outputs, target: predictions([{**one, "size": (0, 0)} for one in outputs], target),  # only what, not where
    found_in,
)
