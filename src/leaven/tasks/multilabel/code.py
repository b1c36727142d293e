"""The code of multi-label classification: what needs torch."""

from functools import partial

from torch import Tensor

from leaven.runtime.data.samples import Samples
from leaven.tasks.guesses import LabelFrequencies
from leaven.tasks.multilabel.evaluation import Evaluation, Tally
from leaven.tasks.multilabel.prediction import Prediction, predictions
from leaven.tasks.multilabel.target import LabelSet
from leaven.tasks.protocol import Description
from leaven.tasks.reports import names_on_card
from leaven.tasks.rows import exported, folder, output_score, row, row_size
from leaven.tasks.scoring import Evaluate, Judgement, Mean, Metrics

__all__ = [
    "Evaluation", "Mean", "Metrics", "Prediction", "Samples", "Tally", "describe", "evaluate", "exported", "folder",
    "output_score", "predictions", "row", "row_size",
]  # fmt: skip


def _judgement(target: LabelSet) -> Judgement:
    # a label that does not occur in the split has no score, and is left out of the mean
    expected = r"Average precision score for one or more classes|No positive samples"
    judged = partial(measured, target=target)
    return Judgement(LabelFrequencies(target.names), judged, expected=expected, tally=partial(Tally, target))


evaluate = Evaluate(_judgement, predictions)  # {"val.loss": 0.3, "val.f1": 0.8}


def measured(outputs: Tensor, targets: Tensor, target: LabelSet) -> tuple[Tensor, Tensor]:
    """The arguments of metrics: probabilities, as torchmetrics would take logits between 0 and 1 for some."""
    return outputs.sigmoid(), targets.int()


def describe(target: LabelSet, inputs: str) -> Description:
    return Description(
        purpose=f"says which of {len(target.names)} labels {inputs} have",
        title="Labels",
        outputs=names_on_card(target.names),
        example=".labels",
    )
