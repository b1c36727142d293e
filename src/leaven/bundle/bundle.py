"""A loaded bundle: a model that can be asked about pictures.

Decides how inputs are gathered into batches, and what is said of an input that can't be used.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor, nn

from leaven.bundle.card import needs_trust
from leaven.bundle.evaluation import Evaluation, PartName, evaluate
from leaven.bundle.export import Format, export
from leaven.bundle.golden import Steps
from leaven.bundle.inputs import as_taken, name_of
from leaven.bundle.manifest import Manifest
from leaven.bundle.prediction import Prediction
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure

BATCH = 32


class Bundle:
    """A model with everything that is needed to ask it: `leaven.load("dogs.bundle")("photo.jpg").label`."""

    def __init__(
        self, path: Path, manifest: Manifest, model: nn.Module, preprocess: Steps, card: str, golden: list[Tensor]
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.model = model
        self.preprocess = preprocess
        self.card = card
        self._golden = golden

    @property
    def classes(self) -> tuple[str, ...]:
        return self.manifest.classes

    @property
    def scores(self) -> dict[str, float]:
        """What the model scored when it was made."""
        return dict(self.manifest.scores)

    @property
    def device(self) -> torch.device:
        return next((value.device for value in self.model.parameters()), torch.device("cpu"))

    def to(self, device: str | torch.device) -> "Bundle":
        """The same bundle, with its model on another device."""
        self.model.to(device)
        return self

    # -- asking

    @overload
    def __call__(self, given: list[Any] | tuple[Any, ...]) -> list[Prediction]: ...
    @overload
    def __call__(self, given: Any) -> Prediction: ...
    def __call__(self, given: Any) -> Prediction | list[Prediction]:
        """What the model says about a picture, or about each of a list of them.

        A picture is a path, an address, bytes, a PIL image, an array (height × width × channels; whole numbers to 255
        or floats to 1) or a tensor (channels × height × width).
        """
        several = given if isinstance(given, list | tuple) else [given]
        said = []
        for answer in self.each(several):
            if isinstance(answer, Failure):
                raise answer
            said.append(answer)
        return said if isinstance(given, list | tuple) else said[0]

    def each(self, inputs: Iterable[Any], *, batch: int = BATCH) -> Iterator[Prediction | Failure]:
        """What the model says about each input in turn; a failure in the place of one that can't be used."""
        waiting, done = iter(inputs), 0
        while chunk := list(islice(waiting, batch)):
            yield from self._answers(chunk, done)
            done += len(chunk)

    def prepare(self, given: Any) -> Tensor:
        """The tensor that the model sees for an input."""
        taken = as_taken(given, self.manifest.takes)
        made = taken if self.preprocess is None else self.preprocess(taken)
        return torch.as_tensor(made).as_subclass(Tensor)

    def _answers(self, chunk: Sequence[Any], done: int) -> list[Prediction | Failure]:
        answers: dict[int, Prediction | Failure] = {}
        by_shape: dict[tuple[int, ...], list[tuple[int, Tensor]]] = {}
        for place, given in enumerate(chunk):
            try:
                tensor = self.prepare(given)
                by_shape.setdefault(tuple(tensor.shape), []).append((place, tensor))
            except Failure as failure:
                answers[place] = failure
            except Exception as problem:  # steps of the user's own may raise anything
                name = name_of(given, done + place)
                answers[place] = Failure(f"the steps can't prepare {name}: {type(problem).__name__}: {problem}")
        for alike in by_shape.values():
            places = [place for place, _ in alike]
            names = [name_of(chunk[place], done + place) for place in places]
            said = self._asked(torch.stack([tensor for _, tensor in alike]), names)
            answers |= dict(zip(places, said, strict=True))
        return [answers[place] for place in range(len(chunk))]

    def _asked(self, images: Tensor, names: Sequence[str]) -> list[Prediction | Failure]:
        first = next(self.model.parameters(), images)
        try:
            with torch.inference_mode():
                logits = self.model(images.to(first.device, first.dtype))
        except (RuntimeError, ValueError, AssertionError) as problem:
            return [self._misfit(name, images, problem) for name in names]
        shares = logits.double().softmax(dim=1).cpu().numpy()
        return [Prediction(self.classes, np.asarray(row)) for row in shares]

    def _misfit(self, name: str, images: Tensor, problem: Exception) -> Failure:
        got, wanted = ("×".join(map(str, shape)) for shape in (images.shape[1:], self.manifest.shape))
        if got == wanted:
            return Failure(f"the model fails on {name}: {type(problem).__name__}: {problem}")
        return Failure(
            f"the model can't take {name}, which the steps make {got}; it takes {wanted}",
            "give one of that size",
        )

    # -- measuring and handing on

    def evaluate(
        self,
        data: str | os.PathLike[str] | Dataset | Sequence[tuple[Any, str]],
        *,
        part: PartName | None = None,
        image: str = "image",
        label: str = "label",
        root: str | os.PathLike[str] | None = None,
        batch: int = BATCH,
        workers: int | Literal["auto"] = 0,
        on_bad_file: Literal["stop", "skip"] = "stop",
        shows_progress: bool = False,
    ) -> Evaluation:
        """How well the model does on pictures whose classes are known.

        `data` is a folder with a sub-folder per class, perhaps below train/, val/ and test/ (test is taken, else val,
        unless `part` says otherwise), a csv table with the columns `image` and `label`, items of the runtime's, or
        pairs of a picture and its class.
        """
        return evaluate(
            self.model,
            self.preprocess,
            self.manifest,
            data,
            part=part,
            columns=(image, label),
            root=root,
            batch=batch,
            workers=0 if needs_trust(self.manifest) else workers,
            on_bad_file=on_bad_file,
            shows_progress=shows_progress,
        )

    def export(
        self, to: Format, file: str | os.PathLike[str] | None = None, *, size: int | tuple[int, int] | None = None
    ) -> Path:
        """Write the model for other programs: "onnx" or "torch_export". Its outputs are compared before it is kept."""
        return export(self.model, self.manifest, self.path, self._golden, to, file, size)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items())
        return f"<Bundle {self.path.name}: {len(self.classes)} classes{f'; {scores}' if scores else ''}>"
