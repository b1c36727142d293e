"""Labels that are probably wrong, by confident learning: those that a model which never saw them contradicts.

The probabilities must come from a model that was not trained on the sample. That holds for what a run kept for testing
and validation; with folds it holds for every sample: a linear head on what the model's own head gets is trained without
each of them in turn. The ranking is cleanlab's.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from leaven.formats.finite_json import as_json
from leaven.lab.mistakes.samples import TRAIN, Samples

NEEDS = "label suspects: this needs cleanlab: pip install 'leaven[lab]'"
FOLDS = 5
_FEWEST = 2  # samples of a class
_SEED = 0


@dataclass(frozen=True)
class Suspect:
    """A sample whose label is doubtful: `quality` is from 0 to 1, and `is_issue` says whether it counts as an error."""

    at: int
    file: str
    split: str
    label: str
    suggested: str
    quality: float
    is_issue: bool

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "at"}


def suspects(samples: Samples, folds: int | None = None) -> list[Suspect] | str:
    """All samples that can be judged, the most doubtful first; or why there are none."""
    if samples.kind not in ("class", "binary"):
        return "label suspects: only for classes and labels"
    if find_spec("cleanlab") is None:
        return NEEDS
    if samples.kind == "binary":
        return _of_labels(samples)
    names = list(samples.outputs)
    numbers = {name: at for at, name in enumerate(names)}
    labels = np.array([numbers.get(name or "", -1) for name in samples.words("label")])
    shares = _shares_of_folds(samples, labels, folds) if folds else samples.rows_of("probabilities")
    if shares is None:
        return "label suspects: " + (_NO_FEATURES if folds else "the probabilities of so many classes are not recorded")
    known = (labels >= 0) & ~np.isnan(shares).any(axis=1)
    if not folds:
        known &= np.array([split != TRAIN for split in samples.splits])
    return _ranked(samples, labels, shares, np.flatnonzero(known), names)


_NO_FEATURES = "the model has no linear head, or too few samples of each class"


def _ranked(
    samples: Samples, labels: np.ndarray, shares: np.ndarray, rows: np.ndarray, names: Sequence[str]
) -> list[Suspect] | str:
    classes = np.unique(labels[rows])
    if len(classes) < 2:
        return "label suspects: there are no two classes to be mixed up"
    own = np.searchsorted(classes, labels[rows])  # cleanlab wants every class to occur
    of_classes = shares[rows][:, classes].astype(np.float64)
    of_classes = np.clip(of_classes, 1e-9, None)
    of_classes /= of_classes.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas and of small classes
        quality = import_module("cleanlab.rank").get_label_quality_scores(own, of_classes, method="normalized_margin")
        issues = import_module("cleanlab.filter").find_label_issues(own, of_classes, n_jobs=1)
    found = []
    for place in np.argsort(quality, kind="stable").tolist():
        at = int(rows[place])
        suggested = names[classes[int(of_classes[place].argmax())]]
        about = (samples.files[at], samples.splits[at], names[labels[at]], suggested)
        found.append(Suspect(at, *about, float(quality[place]), bool(issues[place])))
    return found


def _of_labels(samples: Samples) -> list[Suspect] | str:
    """Samples with several labels, by the label that is most doubtful."""
    shares, truth = samples.rows_of("probabilities"), samples.rows_of("labels")
    if shares is None or truth is None:
        return "label suspects: the probabilities of so many labels are not recorded"
    rows = np.flatnonzero(~np.isnan(shares).any(axis=1))
    given = [np.flatnonzero(truth[row] > 0.5).tolist() for row in rows]
    scores = import_module("cleanlab.multilabel_classification").get_label_quality_scores(given, shares[rows])
    words, predicted = samples.words("label"), samples.words("prediction")
    found = []
    for place in np.argsort(scores, kind="stable").tolist():
        at = int(rows[place])
        about = (samples.files[at], samples.splits[at], words[at] or "", predicted[at] or "")
        found.append(Suspect(at, *about, float(scores[place]), about[2] != about[3]))
    return found


def _shares_of_folds(samples: Samples, labels: np.ndarray, folds: int) -> np.ndarray | None:
    """The probabilities of each sample by a head that was not trained on it; None where that can't be done."""
    features = samples.rows_of("features")
    if features is None:
        return None
    rows = np.flatnonzero((labels >= 0) & ~np.isnan(features).any(axis=1))
    counts = np.bincount(labels[rows], minlength=len(samples.outputs)) if len(rows) else np.zeros(1)
    fewest = int(counts[counts > 0].min(initial=len(rows)))
    if fewest < _FEWEST or (counts > 0).sum() < 2:
        return None
    linear, selection = import_module("sklearn.linear_model"), import_module("sklearn.model_selection")
    steps, scaling = import_module("sklearn.pipeline"), import_module("sklearn.preprocessing")
    head = steps.make_pipeline(scaling.StandardScaler(), linear.LogisticRegression(C=0.01, max_iter=500))
    cross = selection.StratifiedKFold(min(folds, fewest), shuffle=True, random_state=_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged to the last digit
        found = selection.cross_val_predict(head, features[rows], labels[rows], cv=cross, method="predict_proba")
    shares = np.full((len(samples), len(samples.outputs)), np.nan)
    shares[np.ix_(rows, np.unique(labels[rows]))] = found
    shares[rows] = np.nan_to_num(shares[rows])
    return shares
