"""The bundle of a finished run: how its model is built comes from what was recorded when the program built it.

A model that libraries or components made is described by their calls, and loading it runs no code. One that the
program changed in another way, or that the user's code makes, is built by that code, for whoever trusts it.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from leaven.bundle.building import BuiltBy, Components, Own, Timm, Torchvision, Transformers
from leaven.bundle.inputs import candidates
from leaven.bundle.over import Over
from leaven.bundle.saving import save
from leaven.formats import status_line
from leaven.formats.run_folder import BUNDLE
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import USER_FILE, Failure
from leaven.runtime.model.builder import Built, built
from leaven.runtime.run.run import Run
from leaven.techniques.adapters.adapter import adapters_of


def save_run(run: Run, model: nn.Module, data: Data, scores: dict[str, float]) -> None:
    """Save the model of a finished run in its folder; on several devices, only the first process does."""
    if not run.fabric.is_global_zero:
        return
    ways = list(_ways(model))
    if not ways:
        raise Failure("how the model was built is not known", "mark `build_model` with `@runtime.model_builder`")
    file = run.snapshot or run.folder / BUNDLE
    for built_by in ways:
        try:
            with status_line.doing(f"saving {file}, and loading it again to compare its outputs…"):
                _save(file, run, model, data, scores, built_by)
        except Failure:
            if built_by is ways[-1]:
                raise
            continue
        first, *_ = candidates(data.example)
        run.announce(file, trust_code=isinstance(built_by, Own), example=first.example.typed)
        return


def _save(file: Path, run: Run, model: nn.Module, data: Data, scores: dict[str, float], built_by: BuiltBy) -> None:
    save(
        file,
        model,
        built_by=built_by,
        preprocess=data.eval_transform,
        example=data.example,
        columns=getattr(getattr(data.dataset, "load", None), "columns", ()),
        target=data.target,
        scores=run.final_scores(scores),
        epoch=run.chosen.epoch if run.chosen is not None else None,
        folder=run.folder,
        over=_over(model),
    )


def _ways(model: nn.Module) -> Iterator[BuiltBy]:
    """How the model can be built again: by the calls that made it; else by the program's function."""
    known = built(model)
    if (described := _described(model, known)) is not None:
        yield described
    if known.function is not None:
        file = inspect.getsourcefile(known.function)
        if file is not None:
            used = [getattr(value, USER_FILE, None) for value in known.function.__globals__.values()]
            yield Own(file, known.function.__name__, known.arguments, reads=[each for each in used if each])


def _described(model: nn.Module, known: Built) -> BuiltBy | None:
    """The calls that made a model, as data; None where they are not known, or not plain data."""
    made = known.made
    try:
        if made is None:
            return _components(model)
        match made.by:
            case "timm":
                return Timm(made.name, head=known.head, fitted=known.fitted, arguments=made.arguments)
            case "torchvision":
                arguments = {**made.arguments, **({} if known.has_auxiliary_heads else {"aux_logits": False})}
                return Torchvision(made.name, head=known.head, fitted=known.fitted, arguments=arguments)
            case "transformers":
                return Transformers(made.name, made.arguments["config"], made.arguments["pooling"], known.head)
            case "user":
                return Own(made.place, made.name, made.arguments, known.head)
    except Failure:  # a bundle can't hold such arguments
        return None
    return _components(model)


def _components(model: nn.Module) -> Components | None:
    """A chain of Leaven's components."""
    layers = list(model) if type(model) is nn.Sequential else [model]
    calls = [built(layer).made for layer in layers]
    if not calls or any(call is None or call.by != "component" for call in calls):
        return None
    return Components([(call.name, call.arguments) for call in calls if call is not None])


def _over(model: nn.Module) -> Over | None:
    """Where the weights are that stay out of the bundle, if adapters were not merged."""
    known = built(model)
    if not adapters_of(model) or known.weights is None:
        return None
    new: Any = known.weights.new or ((known.head[0],) if known.head is not None else ())
    return Over(known.weights.package, known.weights.tag, known.weights.file, new)
