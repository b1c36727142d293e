"""The model of a bundle written for other programs, and compared with the bundle before it is kept.

What is exported is the model alone, for prepared inputs; what its outputs mean, and the transforms, are its metadata.
"""

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leaven.bundle import golden
from leaven.bundle.inputs import Exported
from leaven.bundle.manifest import Manifest
from leaven.runtime.failures import Failure
from leaven.runtime.run.folder import write_whole

Format = Literal["onnx", "torch_export"]
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
    if to == "onnx" and (missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]):
        verb = "is" if len(missing) == 1 else "are"
        raise Failure(f"{', '.join(missing)} {verb} not installed", f"pip install {' '.join(missing)}")
    path = Path(os.fspath(file)) if file is not None else bundle.with_suffix(ENDINGS[to])
    if path.is_dir():
        path = path / bundle.with_suffix(ENDINGS[to]).name
    exported = manifest.task.exported(model, manifest.target)
    shape, preprocess = manifest.shape, manifest.preprocess
    final = manifest.takes.exported(exported, prepared, size, shape=shape, preprocess=preprocess)
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
            written = write(final, beside, notes, about.outputs_name)
        _compare(final, written)

    model.cpu()
    try:
        write_whole(path, write_and_compare)
    finally:
        model.to(here)
    return path


def _write_torch(exported: Exported, file: Path, notes: dict[str, str], _outputs: str) -> Callable[..., Tensor]:
    some = tuple(each[:2] for each in exported.inputs)
    program = _traced(lambda: torch.export.export(exported.model, some, dynamic_shapes=exported.dynamic_shapes))
    with file.open("wb") as stream:
        torch.export.save(program, stream, extra_files={f"{name}.json": note for name, note in notes.items()})
    with file.open("rb") as stream:
        loaded: Callable[..., Tensor] = torch.export.load(stream).module()
    return loaded


def _write_onnx(exported: Exported, file: Path, notes: dict[str, str], outputs: str) -> Callable[..., Tensor]:
    import onnxruntime  # type: ignore[import-not-found, import-untyped, unused-ignore]

    program: Any = _traced(
        lambda: torch.onnx.export(
            exported.model,
            tuple(each[:2] for each in exported.inputs),
            dynamo=True,
            dynamic_shapes=exported.dynamic_shapes,
            input_names=list(exported.names),
            output_names=[outputs],
            verbose=False,
        )
    )
    program.model.metadata_props.update(notes)
    program.save(str(file), external_data=False)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def run(*tensors: Tensor) -> Tensor:
        given = {name: tensor.numpy() for name, tensor in zip(exported.names, tensors, strict=True)}
        return torch.from_numpy(session.run(None, given)[0])

    return run


def _traced(trace: Callable[[], Any]) -> Any:
    try:
        with torch.no_grad():
            return trace()
    except Exception as problem:
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else ""
        raise Failure(f"the model can't be exported: {type(problem).__name__}: {reason}") from problem


def _compare(exported: Exported, written: Callable[..., Tensor]) -> None:
    """For batches of several sizes, the exported model must have the outputs of the model."""
    for count in BATCHES:
        images = [each[[place % len(each) for place in range(count)]] for each in exported.inputs]
        with torch.no_grad():
            expected = exported.model(*images)
            try:
                found = written(*images)
            except Exception as problem:
                raise Failure(f"the exported model can't take a batch of {count}: {problem}") from problem
        if golden.distance(found.float(), expected.float()) > golden.SAME_HERE:
            raise Failure(
                f"the exported model has other outputs than the bundle for a batch of {count}; nothing was written"
            )


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
