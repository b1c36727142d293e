"""The code of regression: what needs torch."""

import json
from functools import partial

import torch
from torch import Tensor, nn

from leaven.runtime.data.samples import Samples
from leaven.tasks.guesses import TrainingMean
from leaven.tasks.protocol import Description
from leaven.tasks.regression.evaluation import Evaluation, Tally
from leaven.tasks.regression.prediction import Prediction, in_units, predictions
from leaven.tasks.regression.target import Quantities
from leaven.tasks.rows import folder, output_score, row, row_size
from leaven.tasks.scoring import Evaluate, Judgement, Mean, Metrics
from leaven.terminal.visible import as_code, in_markdown, visible

__all__ = [
    "Evaluation", "Mean", "Metrics", "Prediction", "Samples", "Tally", "describe", "evaluate", "exported", "folder",
    "output_score", "predictions", "row", "row_size",
]  # fmt: skip


def _judgement(target: Quantities) -> Judgement:
    in_own_units = partial(measured, target=target)
    return Judgement(TrainingMean(in_own_units), in_own_units, is_exact=True, tally=partial(Tally, target))


evaluate = Evaluate(
    _judgement, predictions
)  # the loss on standardised numbers, metrics in their own units: {"val.mae": 2.1}


def measured(outputs: Tensor, targets: Tensor, target: Quantities) -> tuple[Tensor, Tensor]:
    """The arguments of metrics: numbers in their own units, in 64 bits: 32 can't tell 5400000.1 from 5400000.2."""
    pair = in_units(outputs.double(), target), in_units(targets.double(), target)
    return (pair[0].squeeze(1), pair[1].squeeze(1)) if targets.shape[1] == 1 else pair


class InUnits(nn.Module):
    """A model whose outputs are in the numbers' own units."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, target: Quantities) -> None:
        super().__init__()
        self.model = model
        mean, std = torch.tensor(target.scales, dtype=torch.float32).unbind(1)
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.model(images)
        return outputs * self.std + self.mean


def exported(model: nn.Module, target: Quantities) -> nn.Module:
    return InUnits(model, target).eval()


def describe(target: Quantities, inputs: str) -> Description:
    names = ", ".join(map(as_code, target.names))
    cells = map(in_markdown, target.names)
    rows = [f"| {n} | {mean:.6g} | {std:.6g} |" for n, (mean, std) in zip(cells, target.scales, strict=True)]
    return Description(
        purpose=f"predicts {names} of {inputs}",
        title="Targets",
        outputs="\n".join(["| | mean in training | standard deviation |", "|---|---|---|", *rows]),
        outputs_name="values",
        example=f"[{json.dumps(visible(target.names[0]), ensure_ascii=False)}]",
    )
