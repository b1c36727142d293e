"""Models measured on labelled samples: scores, and the error of each sample, by which two models are paired."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leaven.bundle import Bundle
from leaven.bundle.inputs.protocol import SplitName
from leaven.formats.finite_json import as_json
from leaven.formats.run_folder import LOCK, SCORES, read_json
from leaven.lab.comparison.paired import Interval, Paired, mean_interval, paired, share_interval
from leaven.lab.mistakes.samples import Samples, recorded
from leaven.lab.subject import Subject
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure
from leaven.tasks.reports import finite, percent
from leaven.terminal.score_text import score_text


@dataclass(frozen=True, repr=False)
class Measured:
    """The results of a model: its scores, and its error on each sample, 0 or 1 unless it is `graded_by` a number."""

    task: str
    scores: Mapping[str, float]
    errors: Mapping[str, float]
    graded_by: str
    inputs: str
    data: object = None  # what tells the samples from others of the same name

    @property
    def mean_error(self) -> float:
        return float(np.mean(list(self.errors.values())))

    @property
    def interval(self) -> Interval:
        """The share of samples that are right, or the mean error, with its 95 % interval."""
        errors = np.array(list(self.errors.values()))
        return mean_interval(errors) if self.graded_by else share_interval(int((errors == 0).sum()), len(errors))

    @property
    def words(self) -> str:
        """`43.0 % (38.2 to 47.9)`."""
        found = self.interval
        if self.graded_by:
            return f"{score_text(found.value)} ({score_text(found.low)} to {score_text(found.high)})"
        return f"{percent(found.value)} ({100 * found.low:.1f} to {100 * found.high:.1f})"

    @as_json
    def to_json(self) -> dict[str, Any]:
        what = self.graded_by or "right"
        return {self.inputs: len(self.errors), "scores": finite(self.scores), what: self.interval.to_json()}

    def __repr__(self) -> str:
        return f"<Measured on {len(self.errors)} {self.inputs}: {self.graded_by or 'right'} {self.words}>"


def measured_pair(a: Subject, b: Subject, data: Any, split: SplitName | None) -> tuple[Measured, Measured]:
    """Two models on the given data, or each on that of its run; a model that is not of a run gets that of the other."""
    if data is not None:
        return measured(a.model, data, split, "given"), measured(b.model, data, split, "given")
    if a.run is not None and b.run is not None:
        return of_run(a, split), of_run(b, split)
    if a.run is None and b.run is None:
        raise Failure(
            "neither is in the folder of a run, so there are no samples to measure them on",
            "give labelled data: `data=`, or `--data` on the command line",
        )
    owner = a if a.run is not None else b
    with owner.data() as dataset:
        return measured(a.model, dataset, split, "given"), measured(b.model, dataset, split, "given")


def of_run(subject: Subject, split: SplitName | None = None) -> Measured:
    """The model of a run on the data that the run did not train on: what it recorded, if that still holds."""
    assert subject.run is not None
    record = recorded(subject.run)
    with subject.data() as dataset:
        identity, chosen = _identity(dataset, split, subject), _chosen(dataset, split)
        if isinstance(record, Samples) and any(record.is_measured & (np.array(record.splits) == chosen)):
            return _recorded(subject, record, dataset, chosen, identity)
        return measured(subject.model, dataset, split, identity)


def _recorded(subject: Subject, record: Samples, dataset: Dataset, split: str, identity: object) -> Measured:
    """What the run itself measured."""
    assert subject.run is not None
    rows = np.flatnonzero(record.is_measured & (np.array(record.splits) == split))
    names = [dataset.name(int(index)) for index in record.numbers("index")[rows]]
    written = read_json(subject.run / SCORES)
    scores = {name.removeprefix(f"{split}."): value for name, value in written.items() if name.startswith(f"{split}.")}
    if not np.isnan(loss := record.numbers("loss")[rows]).any():
        scores["loss"] = float(loss.mean())
    errors = _named(names, record.numbers("error")[rows].tolist())
    task, noun = subject.model.manifest.task, f"{subject.model.manifest.takes.noun}s"
    return Measured(subject.model.task, scores, errors, task.Evaluation.graded_by, noun, identity)


def measured(model: Bundle, data: Any, split: SplitName | None, identity: object) -> Measured:
    """A model on labelled data; by default on its test split."""
    evaluation = model.evaluate(data, split=split)
    places = range(evaluation.count)
    errors = _named([evaluation.case(at).file for at in places], [evaluation.error(at) for at in places])
    noun = f"{model.manifest.takes.noun}s"
    return Measured(model.task, evaluation.scores, errors, evaluation.graded_by, noun, identity)


def _named(names: Sequence[str], errors: Sequence[float]) -> dict[str, float]:
    """The error of each sample by its name; further ones of the same name are numbered."""
    seen: Counter[str] = Counter()
    found = {}
    for name, error in zip(names, errors, strict=True):
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} ({seen[name]})"] = error
    return found


def _chosen(dataset: Dataset, split: SplitName | None) -> str:
    """The split that is measured."""
    return split or next((name for name in ("test", "val", "train") if name in dataset.predefined), "all")


def _identity(dataset: Dataset, split: SplitName | None, subject: Subject) -> object:
    """The contents of the samples, by which another dataset has the same; else what the run noted of its data."""
    assert subject.run is not None
    chosen = _chosen(dataset, split)
    if dataset.digests is None:
        return str(read_json(subject.run / LOCK).get("data"))
    indices = np.arange(len(dataset)) if chosen == "all" else np.asarray(dataset.predefined.get(chosen, ()), np.int64)
    return frozenset(dataset.digests(indices))


def pair(a: Measured, b: Measured) -> Paired | str:
    """The two models sample by sample, or why they can't be paired."""
    if (a.task, a.graded_by) != (b.task, b.graded_by):
        return f"not paired: A is for {a.task}, and B for {b.task}"
    if set(a.errors) != set(b.errors) or a.data != b.data:
        shared = len(set(a.errors) & set(b.errors)) if a.data == b.data else 0
        known = f", of which {shared:,} are the same" if shared else ""
        counts = f"A was measured on {len(a.errors):,} {a.inputs} and B on {len(b.errors):,} {b.inputs}{known}"
        return f"not paired: the samples differ ({counts}); give both the same data (`--data`)"
    return paired(a.errors, b.errors, is_graded=bool(a.graded_by))
