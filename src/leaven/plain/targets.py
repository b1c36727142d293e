"""Images or texts with numbers or several labels, as the target of the task reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from leaven.plain.samples import Samples, predefined_in


@dataclass(frozen=True)
class TargetSamples(Samples):
    """Samples with targets that are not the index of a class."""

    target: Any = None  # what they mean

    def strata(self, indices: np.ndarray) -> np.ndarray:
        """A number for each sample: those with the same number are divided alike among the splits."""
        return np.asarray(self.target.strata([self.targets[index] for index in indices.tolist()]))


def read_targets(splits: Mapping[str, Sequence[tuple[Any, Any]]], reader: Any, inputs: Any) -> Samples:
    """Samples with the targets that a model learns to predict, split after split."""
    pairs = [pair for split in splits.values() for pair in split]
    target, values = reader.read([label for _, label in pairs])
    every = inputs([one for one, _ in pairs])
    return TargetSamples(target.names, every, values, predefined=predefined_in(splits), target=target)


def fitted(samples: Any, split: Mapping[str, np.ndarray]) -> Any:
    """Samples with targets as a model is trained on them: numbers are standardised by those of the training split."""
    target, values = samples.target.fitted(samples.targets, split["train"].tolist())
    return replace(samples, target=target, targets=torch.tensor(values))
