"""The mistakes of a model, as a value: the worst of them, what they have in common, and which labels are doubtful.

Each part is computed when it is first asked for. Never imports torch, as long as the record of the samples is there.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from leaven.formats.finite_json import as_json
from leaven.lab.mistakes.calibration import Calibration, calibration
from leaven.lab.mistakes.duplicates import Duplicate, duplicates
from leaven.lab.mistakes.picture import tiles
from leaven.lab.mistakes.samples import Samples, samples
from leaven.lab.mistakes.slices import Slice, slices
from leaven.lab.mistakes.suspects import Suspect, suspects

if TYPE_CHECKING:
    from leaven.bundle import Bundle
    from leaven.lab.subject import Subject

WORST = 10
PARTS = ("worst", "confusions", "calibration", "slices", "suspects", "duplicates")
QUICK_PARTS = PARTS[:4]  # which need nothing but the record


@dataclass(frozen=True)
class Mistake:
    """A sample that was predicted wrongly, or with a large error; `at` is its row in the record."""

    at: int
    file: str
    split: str
    label: str
    prediction: str
    confidence: float | None
    error: float

    @as_json
    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Confusion:
    """Two classes that are mixed up, or a label that is missed or wrongly predicted: how often, of how many."""

    label: str
    prediction: str
    count: int
    total: int

    @as_json
    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Errors:
    """The mistakes of a model on its samples. With `folds`, doubtful labels are looked for among all samples."""

    def __init__(self, found: Samples, folds: int | None = None) -> None:
        self.samples = found
        self.folds = folds

    @cached_property
    def count(self) -> int:
        """How many samples were measured."""
        return int(self.samples.is_measured.sum())

    @cached_property
    def is_graded(self) -> bool:
        """Whether predictions are not just right or wrong."""
        return self.samples.kind in ("number", "mask")

    @cached_property
    def wrong(self) -> list[Mistake]:
        """All mistakes, the most confident first; where errors are graded, all samples, the largest error first."""
        found, errors = self.samples, self.samples.numbers("error")
        confidence = found.numbers("confidence")
        rows = np.flatnonzero(errors > 0)
        by = errors if self.is_graded else np.nan_to_num(confidence, nan=-1.0)
        ranked = rows[np.argsort(-by[rows], kind="stable")]
        labels, predictions = found.words("label"), found.words("prediction")
        return [
            Mistake(
                at,
                found.files[at],
                found.splits[at],
                labels[at] or "",
                predictions[at] or "",
                float(confidence[at]) if np.isfinite(confidence[at]) else None,
                float(errors[at]),
            )
            for at in ranked.tolist()
        ]

    @property
    def worst(self) -> list[Mistake]:
        """The ten most confident mistakes, or largest errors."""
        return self.wrong[:WORST]

    @cached_property
    def confusions(self) -> list[Confusion] | str:
        """What is taken for what, the most frequent first; or why there is no such thing."""
        match self.samples.kind:
            case "class":
                labels = self.samples.words("label")
                totals = Counter(labels[at] for at in np.flatnonzero(self.samples.is_measured).tolist())
                pairs = Counter((one.label, one.prediction) for one in self.wrong)
                return [Confusion(*pair, count, totals[pair[0]]) for pair, count in pairs.most_common()]
            case "binary":
                return self._mixed_labels()
            case _:
                return "confusions: only for classes and labels"

    def _mixed_labels(self) -> list[Confusion] | str:
        shares, truth = self.samples.rows_of("probabilities"), self.samples.rows_of("labels")
        if shares is None or truth is None:
            return "confusions: the probabilities of so many labels are not recorded"
        known = ~np.isnan(shares).any(axis=1)
        predicted, actual = shares[known] >= 0.5, truth[known] > 0.5
        found = []
        for at, name in enumerate(self.samples.outputs):
            has, says = actual[:, at], predicted[:, at]
            found.append(Confusion(name, "missed", int((has & ~says).sum()), int(has.sum())))
            found.append(Confusion(name, "wrongly predicted", int((says & ~has).sum()), int((~has).sum())))
        return sorted((one for one in found if one.count), key=lambda one: -one.count)

    @cached_property
    def calibration(self) -> Calibration | str:
        return calibration(self.samples)

    @cached_property
    def slices(self) -> list[Slice]:
        """The groups of samples in which the model is worse."""
        return slices(self.samples)

    @cached_property
    def suspects(self) -> list[Suspect] | str:
        """The samples whose label is doubtful, the most doubtful first; or why none can be told."""
        return suspects(self.samples, self.folds)

    @cached_property
    def duplicates(self) -> list[Duplicate] | str:
        """Samples of different splits that are the same, or nearly so. All images are opened."""
        return duplicates(self.samples)

    # -- shown

    @as_json
    def to_json(self, parts: Sequence[str] = QUICK_PARTS, most: int = 100) -> dict[str, Any]:
        """Some parts of it; of each list the first `most`."""
        found: dict[str, Any] = {
            "subject": self.samples.subject,
            "kind": self.samples.kind,
            "measured": self.count,
            "wrong": None if self.is_graded else len(self.wrong),
            "splits": self.samples.counts,
            "notes": list(self.samples.notes),
        }
        for part in parts:
            value = getattr(self, part)
            if isinstance(value, list):
                found[part] = [one.to_json() for one in value[:most]]
            else:
                found[part] = value if isinstance(value, str) else value.to_json()
        return found

    def picture(self, count: int = WORST) -> bytes | None:
        """The worst mistakes as a PNG; None where the samples are texts."""
        if self.samples.noun == "text":
            return None
        return tiles(self.samples, self.wrong[:count])

    def __str__(self) -> str:
        from leaven.lab.mistakes.report import report

        return report(self)

    def __repr__(self) -> str:
        wrong = "" if self.is_graded else f", {len(self.wrong):,} wrong"
        return f"<Errors of {self.samples.subject}: {self.count:,} measured{wrong}>"


def errors(
    subject: "str | os.PathLike[str] | Subject | Bundle",
    data: Any = None,
    *,
    folds: int | None = None,
    trust_code: bool = False,
) -> Errors:
    """The mistakes of a run, a bundle or a published model: on the samples that a run kept for testing and validation,
    or on `data` (a folder or a table of labelled inputs).

    With `folds`, doubtful labels are looked for among all samples, also those of training: a linear head on what the
    head of the model gets is trained without each of them in turn.
    """
    return Errors(samples(subject, data, features=bool(folds), trust_code=trust_code), folds)
