"""A loaded bundle: a model that predicts.

Decides how inputs become batches, and what is reported of an input that can't be used; what a prediction is, is decided
by the task.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leaven.bundle.asking import UNFIT, ask, prepare
from leaven.bundle.card import needs_trust
from leaven.bundle.evaluation import Evaluated, evaluate
from leaven.bundle.export import Format, export
from leaven.bundle.golden import Steps
from leaven.bundle.inputs.protocol import Measured, SplitName, name_of
from leaven.bundle.manifest import Manifest
from leaven.bundle.page import page
from leaven.formats.target import Target
from leaven.formats.texts import text_columns
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.data.places import Place
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import looking_at
from leaven.runtime.run.folder import write_text
from leaven.tasks.protocol import Prediction
from leaven.terminal.score_text import score_text

BATCH = 32


@dataclass(eq=False, repr=False)
class Bundle:
    """A model with everything needed to use it: `leaven.load("dogs.bundle")("photo.jpg").label`."""

    path: Path
    manifest: Manifest
    model: nn.Module
    preprocess: Steps
    card: str
    _golden: list[Tensor]

    @property
    def task(self) -> str:
        """The name of the model's task: `classification`."""
        return self.manifest.target.task

    @property
    def target(self) -> Target:
        """The target of the model: the meaning of its outputs."""
        return self.manifest.target

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each output of the model: the classes of a classifier."""
        return self.manifest.target.names

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the model when it was saved."""
        return dict(self.manifest.scores)

    @property
    def device(self) -> torch.device:
        return next((value.device for value in self.model.parameters()), torch.device("cpu"))

    def to(self, device: str | torch.device) -> "Bundle":
        """The same bundle, with its model on another device."""
        self.model.to(device)
        return self

    # -- predicting

    def __call__(self, given: Any) -> Any:
        """The prediction for an image, or those for a list of them.

        An image is a path, a URL, bytes, a PIL image, an array (height × width × channels; integers up to 255 or
        floats up to 1) or a tensor (channels × height × width). A folder or a pattern such as "*.jpg" means its images:
        then the predictions are in a dictionary, by file. A text model takes a string, or a pair of them as a
        tuple.
        """
        takes = self.manifest.takes
        if (files := takes.files(given)) is not None:
            return dict(zip(files, self._all(files), strict=True))
        return self._all([given])[0] if takes.is_one(given) else self._all(given)

    def _all(self, several: Sequence[Any]) -> list[Prediction]:
        """The predictions for some inputs; a failure is raised at the first that can't be used."""
        predictions = []
        for answer in self.each(several):
            if isinstance(answer, Failure):
                raise answer
            predictions.append(answer)
        return predictions

    def each(self, inputs: Iterable[Any], *, batch: int = BATCH) -> Iterator[Prediction | Failure]:
        """The prediction for each input in turn; a failure for one that can't be used."""
        waiting, done = iter(inputs), 0
        while chunk := list(islice(waiting, batch)):
            yield from self._predictions(chunk, done)
            done += len(chunk)

    def prepare(self, given: Any) -> Any:
        """The tensor that the model gets for an input; for a text, its tensors by name."""
        return self._prepared(given)[0]

    def _prepared(self, given: Any) -> tuple[Any, Place]:
        return prepare(self.manifest.takes.converted(given), self.preprocess, self.manifest.task.Samples())

    def _predictions(self, chunk: Sequence[Any], done: int) -> list[Prediction | Failure]:
        noun = self.manifest.takes.noun
        answers: dict[int, Prediction | Failure] = {}
        by_shape: dict[tuple[int, ...], list[tuple[int, Any, Place]]] = {}
        for place, given in enumerate(chunk):
            try:
                made, in_image = self._prepared(given)
                shape = () if isinstance(made, dict) else tuple(made.shape)  # texts are padded to one length
                by_shape.setdefault(shape, []).append((place, made, in_image))
            except Failure as failure:
                answers[place] = failure
            except Exception as problem:  # custom transforms may raise anything
                name = name_of(given, noun, done + place)
                answers[place] = Failure(f"the transforms can't prepare {name}: {type(problem).__name__}: {problem}")
        for alike in by_shape.values():
            places, images, in_images = zip(*alike, strict=True)
            names = [name_of(chunk[place], noun, done + place) for place in places]
            answers |= dict(zip(places, self._predicted(images, in_images, names), strict=True))
        return [answers[place] for place in range(len(chunk))]

    def _predicted(
        self, images: Sequence[Any], places: Sequence[Place], names: Sequence[str]
    ) -> Sequence[Prediction | Failure]:
        task = self.manifest.task
        try:
            outputs = ask(self.model, images, places, task.Samples())
        except UNFIT as problem:
            return [self._misfit(name, images[0], problem) for name in names]
        return task.predictions(outputs, self.target)

    def _misfit(self, name: str, image: Any, problem: Exception) -> Failure:
        got, wanted = ("×".join(map(str, shape)) for shape in (first_tensor(image).shape, self.manifest.shape))
        if got == wanted or isinstance(image, dict):
            return Failure(f"the model fails on {name}: {type(problem).__name__}: {problem}")
        return Failure(
            f"the model can't take {name}: the transforms make it {got}, but the model takes {wanted}",
            "give an image of that size",
        )

    # -- evaluating and exporting

    def evaluate(
        self,
        data: str | os.PathLike[str] | Dataset | Sequence[tuple[Any, Any]],
        *,
        split: SplitName | None = None,
        image: str | None = None,
        text: str | Sequence[str] = (),
        label: str | Sequence[str] = (),
        root: str | os.PathLike[str] | None = None,
        batch: int = BATCH,
        workers: int | Literal["auto"] = 0,
        on_bad_file: Literal["stop", "skip"] = "stop",
        shows_progress: bool = False,
        html: str | os.PathLike[str] | None = None,
    ) -> Any:
        """How well the model does on labelled images.

        `data` is a folder of labelled images, perhaps below train/, val/ and test/ (test is measured, else val, unless
        `split` says otherwise), a table with the columns `image` and `label` (by default those of the training), a data
        set of the runtime, or pairs of an image and its label. Of a text model, a table has them in the columns `text`
        (by default those of the training). `html` writes a page with the scores, figures and the worst predictions,
        which needs matplotlib.
        """
        columns = (label,) if isinstance(label, str) else tuple(label)
        measured = Measured(data, split, image, text_columns(text), columns, root, on_bad_file)
        workers = 0 if needs_trust(self.manifest) else workers
        found = evaluate(self, measured, batch=batch, workers=workers, shows_progress=shows_progress)
        evaluation = found.evaluation
        if html is not None:
            about = f"{self.task}, {self.target.brief}; {evaluation.count:,} {self.manifest.takes.noun}s"

            def shown(at: int) -> Any:
                return self.manifest.takes.shown(found.items.load(found.indices[at]))

            write_text(Path(html), page(str(self.path), about, evaluation, shown, self.scores))
        return evaluation

    def evaluated(
        self, data: Any, *, split: SplitName | None = None, batch: int = BATCH, shows_progress: bool = False
    ) -> Evaluated:
        """What `evaluate` measures, with the samples that were measured and what the head of the model got for them."""
        measured = Measured(data, split, None, (), (), None)
        return evaluate(self, measured, batch=batch, workers=0, shows_progress=shows_progress, keeps_features=True)

    def export(
        self, to: Format, file: str | os.PathLike[str] | None = None, *, size: int | tuple[int, int] | None = None
    ) -> Path:
        """Write the model for other programs: "onnx" or "torch_export"; only a file with the same outputs is kept."""
        with looking_at(self.model, or_itself=True) as copied:
            return export(copied, self.manifest, self.path, self._golden, to, file, size)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {score_text(value)}" for name, value in self.scores.items())
        return f"<Bundle {self.path.name}: {self.target.brief}{f'; {scores}' if scores else ''}>"
