"""How a bundle is loaded: it is verified, its model is built and filled, and must have the outputs that were saved.

One that does not come from here is tried out in a subprocess before.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from leaven.bundle import golden, limits
from leaven.bundle.archive import CARD, GOLDEN, MANIFEST, damaged, read_archive
from leaven.bundle.building import BuiltBy, Transformers, read_builder
from leaven.bundle.bundle import Bundle
from leaven.bundle.card import needs_trust
from leaven.bundle.golden import Steps
from leaven.bundle.manifest import Manifest, read_manifest, versions
from leaven.bundle.over import add_adapters, put_together
from leaven.bundle.saving import fill
from leaven.bundle.source_code import Code
from leaven.bundle.steps import has_code, rebuild
from leaven.bundle.tried import is_known, key_of, remember, try_bundle
from leaven.formats.run_folder import BUNDLE, newest, only_in_smoke_test
from leaven.formats.trained import is_built_by_code
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.downloads import offline
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.weights import BUNDLED_WEIGHTS
from leaven.techniques.adapters.adapter import merge_adapters

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError, SafetensorError)


def load(file: str | os.PathLike[str], *, trust_code: bool = False, device: str | torch.device = "cpu") -> Bundle:
    """The model in a bundle, ready to predict.

    `file` may be the folder of a run, or a folder of several runs, of which the newest is loaded. A damaged bundle
    is refused; that does not protect against one that was changed on purpose. Code in it runs only with
    `trust_code=True`, which custom models and transforms need.
    """
    path = Path(os.fspath(file))
    path = newest(path, BUNDLE) or path
    if problem := only_in_smoke_test(path, BUNDLE):
        raise Failure(*problem)
    members = read_archive(path)
    key = key_of(members)
    with golden.fixed_seed():
        read = _read(path, members, is_trusted=trust_code)
        if not needs_trust(read.manifest):
            if not is_known(key):
                try_bundle(path, limits.of_trial(read.most, path.stat().st_size))
                remember(key)
            read.code.is_tried = True
        manifest, weights, steps = read.manifest, read.weights, _steps(path, read)
        model = _built(path, read)
        if manifest.over is not None:
            with _reading(path), limits.limited(read.most):
                weights = put_together(model, manifest.over, weights, read.builder, read.code, path)
        fill(model, weights, manifest.sizes)
        merge_adapters(model)
        model.eval().requires_grad_(False)
        tried = _steps(path, read) if has_code(manifest.preprocess) else steps
        prepared = _check_outputs(path, read, model, tried)
    return Bundle(path, manifest, model, steps, read.card, prepared).to(device)


def try_out(path: Path) -> None:
    """Build the model in a bundle that has no code in it, and run it, as `load` does after this went well.

    Weights that are elsewhere are left out: nothing is looked for.
    """
    with golden.fixed_seed():
        read = _read(path, read_archive(path), is_trusted=False)
        steps = _steps(path, read)
        with _reading(path), offline(), limits.limited(read.most), torch.device("meta"), suppress(Failure):
            read.builder.build(read.code)  # without memory for its weights, to see how large it is
        model = _built(path, read)
        if read.manifest.over is None:
            fill(model, read.weights, read.manifest.sizes)
        else:
            with _reading(path), limits.limited(read.most):
                add_adapters(model, read.manifest.over, path)
        merge_adapters(model)
        takes = read.manifest.takes
        with _running(path, read.manifest), looking_at(model.eval(), or_itself=True) as copied:
            inputs = [golden.prepared(made, takes, steps) for made in (*read.inputs, *takes.large_inputs())]
            golden.rows_of(copied, inputs, read.manifest.task)


def load_model(file: str | os.PathLike[str], *, trust_code: bool = False) -> nn.Module:
    """The model in a bundle without the rest, to be a teacher or to be trained further; its weights are trainable."""
    return load(file, trust_code=trust_code).model.requires_grad_(True)


class _Read(NamedTuple):
    """The content of a bundle, after it was verified; the model has `most` numbers."""

    manifest: Manifest
    builder: BuiltBy
    weights: dict[str, Tensor]
    inputs: list[Tensor]
    outputs: Tensor
    code: Code
    card: str
    most: int


def _read(path: Path, members: Mapping[str, bytes], *, is_trusted: bool) -> _Read:
    with _reading(path):
        manifest = read_manifest(members[MANIFEST], path.name)
        builder = read_builder(manifest.built_by)
        weights = safetensors.torch.load(members[BUNDLED_WEIGHTS])
        if is_text := isinstance(builder, Transformers):
            limits.check_configuration(builder.config, weights)
        inputs, outputs = golden.unpack(members[GOLDEN])
        limits.check_inputs(inputs, outputs)
        limits.check_steps(manifest.preprocess)
        limits.check_size(manifest.takes.to_json())
        limits.check_adapters(manifest.over)
        code = Code(members, is_trusted=is_trusted, bundle=str(path))
        card = members[CARD].decode()
    most = limits.most_elements(
        weights, is_pruned=bool(manifest.sizes), is_over=manifest.over is not None, is_text=is_text
    )
    return _Read(manifest, builder, weights, inputs, outputs, code, card, most)


def _steps(path: Path, read: _Read) -> Steps:
    with _reading(path):
        return rebuild(read.manifest.preprocess, read.code)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """While the content of a bundle is read: whatever can't be read is damage."""
    try:
        yield
    except _UNREADABLE as problem:
        raise damaged(path, str(problem) or type(problem).__name__) from None


def _built(path: Path, read: _Read) -> nn.Module:
    try:
        with nullcontext() if is_built_by_code(read.manifest.built_by) else offline(), limits.limited(read.most):
            return read.builder.build(read.code)
    except limits.TooLarge as problem:
        raise damaged(path, str(problem)) from None
    except Failure as failure:
        headline = failure.headline if str(path) in failure.headline else f"{path}: {failure.headline}"
        raise Failure(headline, failure.help or _made_with(read.manifest)) from failure.__cause__


def _check_outputs(path: Path, read: _Read, model: nn.Module, steps: Steps) -> list[Tensor]:
    """The golden inputs as the model gets them, if the outputs of a copy of it are those that were saved."""
    manifest, expected = read.manifest, read.outputs
    with _running(path, manifest), looking_at(model, or_itself=True) as copied:
        prepared = [golden.prepared(made, manifest.takes, steps) for made in read.inputs]
        apart = golden.distance(golden.outputs_of(copied, prepared, manifest.task), expected)
    if tuple(first_tensor(prepared[0]).shape) != manifest.shape:
        raise damaged(path, "its transforms make another shape than it says")
    if expected.shape[1] != (manifest.task.row_size(manifest.target) or expected.shape[1]):
        raise damaged(path, f"the model has {expected.shape[1]} outputs, but {len(manifest.target.names)} names")
    if apart > golden.SAME_ANYWHERE:
        raise Failure(
            f"the model in {path} has other outputs than when it was saved: they differ by {100 * apart:.2g} %",
            _made_with(manifest),
        )
    return prepared


@contextmanager
def _running(path: Path, manifest: Manifest) -> Iterator[None]:
    """While the model computes: whatever goes wrong is a failure that names the bundle."""
    try:
        yield
    except Exception as problem:
        reason = problem.headline if isinstance(problem, Failure) else f"{type(problem).__name__}: {problem}"
        raise Failure(f"the model in {path} can't be used: {reason}", _made_with(manifest)) from None


def _made_with(manifest: Manifest) -> str:
    """The help to install the versions that it was made with, where others are installed here."""
    here = versions()
    others = [f"{name}=={number}" for name, number in manifest.versions.items() if here.get(name, number) != number]
    return f"it was made with other versions; try: pip install {' '.join(others)}" if others else ""
