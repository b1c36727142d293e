"""The model of a bundle written for other programs, and compared with the bundle before it is kept.

What is exported is the model alone, for prepared inputs; what its outputs mean, and the transforms, are its metadata.
"""

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leaven.bundle import golden
from leaven.bundle.manifest import Manifest
from leaven.runtime.failures import Failure
from leaven.runtime.run.folder import write_whole

Format = Literal["onnx", "torch_export"]
Inputs = tuple[Tensor, ...]  # of a batch, in the order in which the model takes them
ENDINGS: dict[Format, str] = {"onnx": ".onnx", "torch_export": ".pt2"}
BATCHES = (1, 2, 5)  # sizes for which the outputs are compared
_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def export(
    model: nn.Module,
    manifest: Manifest,
    bundle: Path,
    prepared: list[Any],
    to: Format,
    file: str | os.PathLike[str] | None,
    size: int | tuple[int, int] | None,
) -> Path:
    """Write the model atomically, and only if what was written has the same outputs. It takes batches of any size."""
    if to not in ENDINGS:
        raise Failure(f"there is no export to {to}", f"choose one of: {', '.join(ENDINGS)}")
    if to == "onnx":
        _need_onnx()
    path = Path(os.fspath(file)) if file is not None else bundle.with_suffix(ENDINGS[to])
    if path.is_dir():
        path = path / bundle.with_suffix(ENDINGS[to]).name
    if manifest.takes.kind == "text":
        if size is not None:
            raise Failure("a model of texts has no image size", "leave out `size`")
        names, inputs = _texts(prepared)
        longest = manifest.preprocess["arguments"]["max_length"]
        final: nn.Module = _Named(manifest.task.exported(model, manifest.target), names, longest)
    else:
        names, inputs = ["images"], (_inputs(prepared, manifest, size),)
        final = manifest.task.exported(model, manifest.target)
    here = next((value.device for value in model.parameters()), torch.device("cpu"))
    write: Callable[..., Callable[..., Tensor]] = {"onnx": _write_onnx, "torch_export": _write_torch}[to]
    about = manifest.task.describe(manifest.target, f"{manifest.takes.noun}s")
    notes = {
        "task": json.dumps(manifest.target.task),
        about.title.lower(): json.dumps(list(manifest.target.names), ensure_ascii=False),
        "preprocess": json.dumps(manifest.preprocess, ensure_ascii=False),
    }

    def write_and_compare(beside: Path) -> None:
        with _quiet():
            exported = write(final, inputs, beside, notes, names, about.outputs_name)
        _compare(final, exported, inputs)

    model.cpu()
    try:
        write_whole(path, write_and_compare)
    finally:
        model.to(here)
    return path


def _inputs(prepared: list[Tensor], manifest: Manifest, size: int | tuple[int, int] | None) -> Tensor:
    """A batch of the golden inputs, in the size that is asked for."""
    height, width = (size, size) if isinstance(size, int) else size or manifest.shape[-2:]
    fitted = [
        nn.functional.interpolate(one[None].float(), size=(height, width), mode="bilinear", antialias=True)
        for one in prepared
    ]
    return torch.cat(fitted)


class _Named(nn.Module):
    """A model of texts that takes its tensors one by one."""

    def __init__(self, model: nn.Module, names: Sequence[str], longest: int) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)
        self.longest = longest

    def forward(self, *tensors: Tensor) -> Tensor:
        outputs: Tensor = self.model(dict(zip(self.names, tensors, strict=True)))
        return outputs


def _texts(prepared: list[Any]) -> tuple[list[str], tuple[Tensor, ...]]:
    """The golden inputs as one batch, by the names that other programs give them."""
    width = max(len(one["input_ids"]) for one in prepared)
    padded = [{name: nn.functional.pad(each, (0, width - len(each))) for name, each in one.items()} for one in prepared]
    names = list(padded[0])
    return names, tuple(torch.stack([one[name] for one in padded]) for name in names)


def _write_torch(
    model: nn.Module, inputs: Inputs, file: Path, notes: dict[str, str], _names: Sequence[str], _outputs: str
) -> Callable[..., Tensor]:
    some = tuple(each[:2] for each in inputs)
    program = _traced(lambda: torch.export.export(model, some, dynamic_shapes=_any_batch(model)))
    with file.open("wb") as stream:
        torch.export.save(program, stream, extra_files={f"{name}.json": note for name, note in notes.items()})
    with file.open("rb") as stream:
        loaded: Callable[..., Tensor] = torch.export.load(stream).module()
    return loaded


def _write_onnx(
    model: nn.Module, inputs: Inputs, file: Path, notes: dict[str, str], names: Sequence[str], outputs: str
) -> Callable[..., Tensor]:
    import onnxruntime  # type: ignore[import-not-found, import-untyped, unused-ignore]

    program: Any = _traced(
        lambda: torch.onnx.export(
            model,
            tuple(each[:2] for each in inputs),
            dynamo=True,
            dynamic_shapes=_any_batch(model),
            input_names=list(names),
            output_names=[outputs],
            verbose=False,
        )
    )
    program.model.metadata_props.update(notes)
    program.save(str(file), external_data=False)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def run(*tensors: Tensor) -> Tensor:
        given = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
        return torch.from_numpy(session.run(None, given)[0])

    return run


def _any_batch(model: nn.Module) -> Any:
    """Batches of any size, and texts of any length that the model takes."""
    batch = torch.export.Dim("batch", min=1)
    if not isinstance(model, _Named):
        return ({0: batch},)
    each = {0: batch, 1: torch.export.Dim("length", min=2, max=model.longest)}
    return (tuple(each for _ in model.names),)


def _traced(trace: Callable[[], Any]) -> Any:
    try:
        with torch.no_grad():
            return trace()
    except Exception as problem:
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else ""
        raise Failure(f"the model can't be exported: {type(problem).__name__}: {reason}") from problem


def _compare(model: nn.Module, exported: Callable[..., Tensor], inputs: Inputs) -> None:
    """For batches of several sizes, the exported model must have the outputs of the model."""
    for count in BATCHES:
        images = [each[[place % len(each) for place in range(count)]] for each in inputs]
        with torch.no_grad():
            expected = model(*images)
            try:
                found = exported(*images)
            except Exception as problem:
                raise Failure(f"the exported model can't take a batch of {count}: {problem}") from problem
        if golden.distance(found.float(), expected.float()) > golden.SAME_HERE:
            raise Failure(
                f"the exported model has other outputs than the bundle for a batch of {count}; nothing was written"
            )


def _need_onnx() -> None:
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        verb = "is" if len(missing) == 1 else "are"
        raise Failure(f"{', '.join(missing)} {verb} not installed", f"pip install {' '.join(missing)}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' own messages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
