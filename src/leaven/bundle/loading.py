"""How a bundle is loaded: it is verified, its model is built and filled, and must have the outputs that were saved."""

import os
from contextlib import suppress
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from leaven.bundle import golden, limits
from leaven.bundle.archive import CARD, GOLDEN, MANIFEST, damaged, read_archive
from leaven.bundle.building import BuiltBy, Transformers, read_builder, runs_code
from leaven.bundle.bundle import Bundle
from leaven.bundle.golden import Steps
from leaven.bundle.manifest import Manifest, read_manifest, versions
from leaven.bundle.over import put_together
from leaven.bundle.saving import fill
from leaven.bundle.source_code import Code
from leaven.bundle.steps import rebuild
from leaven.formats.run_folder import BUNDLE, newest, only_in_smoke_test
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.downloads import offline
from leaven.runtime.failures import Failure
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
    if told := only_in_smoke_test(path, BUNDLE):
        raise Failure(*told)
    members = read_archive(path)
    with golden.fixed_seed():
        try:
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
            code = Code(members, is_trusted=trust_code, bundle=str(path))
            steps = rebuild(manifest.preprocess, code)
            card = members[CARD].decode()
        except _UNREADABLE as problem:
            raise damaged(path, str(problem) or type(problem).__name__) from None
        most = limits.most_elements(
            weights, is_pruned=bool(manifest.sizes), is_over=manifest.over is not None, is_text=is_text
        )
        model = _built(path, manifest, builder, code, most)
        if manifest.over is not None:
            weights = _put_together(path, manifest, model, weights, builder, code, most)
        fill(model, weights, manifest.sizes)
        merge_adapters(model)
        model.eval().requires_grad_(False)
        prepared = _check_outputs(path, manifest, model, steps, inputs, outputs)
    return Bundle(path, manifest, model, steps, card, prepared).to(device)


def load_model(file: str | os.PathLike[str], *, trust_code: bool = False) -> nn.Module:
    """The model in a bundle without the rest, to be a teacher or to be trained further; its weights are trainable."""
    return load(file, trust_code=trust_code).model.requires_grad_(True)


def _built(path: Path, manifest: Manifest, builder: BuiltBy, code: Code, most: int) -> nn.Module:
    """The model. First it is built without memory for its weights, to see how large it is."""
    try:
        if runs_code(builder):  # trusted code, which may do anything
            with limits.limited(most):
                return builder.build(code)
        with offline():
            with limits.limited(most), torch.device("meta"), suppress(Failure):
                builder.build(code)
            with limits.limited(most):
                return builder.build(code)
    except limits.TooLarge as problem:
        raise damaged(path, str(problem)) from None
    except Failure as failure:
        headline = failure.headline if str(path) in failure.headline else f"{path}: {failure.headline}"
        raise Failure(headline, failure.help or _made_with(manifest)) from failure.__cause__


def _put_together(
    path: Path,
    manifest: Manifest,
    model: nn.Module,
    weights: dict[str, Tensor],
    builder: BuiltBy,
    code: Code,
    most: int,
) -> dict[str, Tensor]:
    assert manifest.over is not None
    try:
        with limits.limited(most):
            return put_together(model, manifest.over, weights, builder, code, path)
    except _UNREADABLE as problem:
        raise damaged(path, str(problem) or type(problem).__name__) from None


def _check_outputs(
    path: Path, manifest: Manifest, model: nn.Module, steps: Steps, inputs: list[Tensor], expected: Tensor
) -> list[Tensor]:
    """The golden inputs as the model gets them, if its outputs for them are those that were saved."""
    try:
        prepared = [golden.prepared(made, manifest.takes, steps) for made in inputs]
        apart = golden.distance(golden.outputs_of(model, prepared, manifest.task), expected)
    except Exception as problem:
        reason = problem.headline if isinstance(problem, Failure) else f"{type(problem).__name__}: {problem}"
        raise Failure(f"the model in {path} can't be used: {reason}", _made_with(manifest)) from None
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


def _made_with(manifest: Manifest) -> str:
    """Which versions to install, where others are installed here."""
    here = versions()
    others = [f"{name}=={number}" for name, number in manifest.versions.items() if here.get(name, number) != number]
    return f"it was made with other versions; try: pip install {' '.join(others)}" if others else ""
