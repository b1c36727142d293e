"""The bundle of a finished run: how its model is built comes from the plan.

A model that libraries or components made is described by their calls, and loading it runs no code. One that the user's
code makes or changes is built by that code, and one of a program that was edited by the program, for whoever trusts it.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from leaven.bundle import golden
from leaven.bundle.building import BuiltBy, BuiltFirst, Changed, Own, plain
from leaven.bundle.from_plan import planned_builder, planned_over
from leaven.bundle.inputs import candidates
from leaven.bundle.saving import rebuilt, save
from leaven.bundle.source_code import Code, Sources
from leaven.formats.run_folder import BUNDLE
from leaven.formats.tables import PLAIN
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import USER_FILE, Failure
from leaven.runtime.model.builder import Change, built, record
from leaven.runtime.model.masks import has_masks
from leaven.runtime.run.run import Run
from leaven.runtime.run.samples import write_samples
from leaven.techniques.adapters.adapter import adapters_of
from leaven.terminal import status_line


def save_run(run: Run, model: nn.Module, data: Data, scores: dict[str, float]) -> None:
    """Save the model of a finished run in its folder; on several devices, only the first process does."""
    if not run.fabric.is_global_zero:
        return
    ways = list(_ways(model))
    if not ways:
        raise Failure("how the model was built is not known", "mark `build_model` with `@runtime.model_builder`")
    file = run.ending.bundle(run.folder.path)
    load = getattr(data.dataset, "load", None)
    for built_by in ways:
        try:
            with status_line.doing(f"saving {file}, and loading it again to compare its outputs…"):
                save(
                    file,
                    model,
                    built_by=built_by,
                    preprocess=data.eval_transform,
                    example=data.example,
                    columns=getattr(load, "columns", ()),
                    layout=getattr(load, "layout", PLAIN),
                    ending=getattr(load, "ending", ""),
                    target=data.target,
                    scores=run.final_scores(scores),
                    caveats=run.caveats,
                    epoch=run.chosen.epoch if run.chosen is not None else None,
                    folder=run.folder.path,
                    over=planned_over(built(model)) if adapters_of(model) else None,  # unless they were merged
                )
        except Failure:
            if built_by is ways[-1]:
                raise
            continue
        write_samples(run, data, file)
        first, *_ = candidates(data.example)
        run.announce(file, trust_code=isinstance(built_by, Own | Changed), example=first.example.typed)
        return


# -- changes by the user's techniques


def note_change(model: nn.Module, technique: Any, /, **arguments: Any) -> None:
    """Note what a technique of the user's has changed in a model: the bundle lets it change its model in the same way.

    That is tried at once: a change that can't be repeated is refused before anything is trained.
    """
    given = tuple(name for name, value in arguments.items() if value is model)
    held, lost = dict[str, Any](), list[str]()
    for name, value in arguments.items():
        try:
            if name not in given:
                plain(value, "")
                held[name] = value
        except Failure:
            lost.append(name)
    record(model, changes=(*built(model).changes, Change(type(technique), held, given, tuple(lost))))
    # adapters are merged and masks applied at the end, and the sizes of lazy layers are known after their first batch
    if any(map(is_lazy, (*model.parameters(), *model.buffers()))) or adapters_of(model) or has_masks(model):
        return
    problem = None
    for way in _ways(model):
        try:
            _build_like(model, way)
        except Failure as failure:
            problem = failure
        else:
            return
    if problem is not None:
        name = type(technique).__name__
        headline = f"the model could not be saved: what {name}.on_model changes can't be repeated: {problem.headline}"
        raise Failure(headline, problem.help, about=name)


def _build_like(model: nn.Module, way: BuiltBy) -> None:
    """Build a model again, which must have the same layers. The model itself does not run: it might change."""
    sources = Sources()
    with golden.fixed_seed():
        described = way.describe(sources)
        code = Code(sources.members, is_trusted=True, bundle=BUNDLE)
        again, _ = rebuilt(described, None, code, model, model.state_dict(), Path(BUNDLE))
    kinds, others = _kinds(model), _kinds(again)
    for path in (*kinds, *others):
        if kinds.get(path) != others.get(path):
            found = f"a {others[path]}" if path in others else "missing"
            raise Failure(f"built again, {path or 'the model'} is {found}, not a {kinds.get(path, 'layer at all')}")


def _kinds(model: nn.Module) -> dict[str, str]:
    return {path: type(layer).__qualname__ for path, layer in model.named_modules()}


# -- ways to build a model


def _ways(model: nn.Module) -> Iterator[BuiltBy]:
    """How the model can be built again: by the calls that made it, else by the program's function; either may have to
    be followed by what the user's techniques change."""
    changes = built(model).changes
    for first in _first_ways(model):
        yield first
        if changes:
            yield Changed(first, changes)


def _first_ways(model: nn.Module) -> Iterator[BuiltFirst]:
    known = built(model)
    if (described := planned_builder(model, known)) is not None:
        yield described
    if known.function is not None:
        file = inspect.getsourcefile(known.function)
        if file is not None:
            used = [getattr(value, USER_FILE, None) for value in known.function.__globals__.values()]
            yield Own(file, known.function.__name__, known.arguments, reads=[each for each in used if each])
