"""Questions to a model over a pipe: each is a call of the lab, with JSON in and JSON out.

Models are loaded when they are first asked, and kept. `trust` says whether the code of a bundle or a run may be run.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from leaven.bundle import Bundle
from leaven.formats.run_folder import is_finished
from leaven.lab.answers import Answer as ModelAnswer
from leaven.lab.answers import Answers, predictions
from leaven.lab.asked import pipe
from leaven.lab.asked.given import Given, as_input, edited
from leaven.lab.attribution import METHODS, attribute, occlusion
from leaven.lab.checks import save_check
from leaven.lab.comparison.comparing import compare
from leaven.lab.curves import smallest_flip, vary
from leaven.lab.edits.edited import Edited, as_edited
from leaven.lab.edits.kinds import KINDS
from leaven.lab.explained import Attribution
from leaven.lab.inspector import Inspector
from leaven.lab.journal import Journal
from leaven.lab.layer_statistics import statistics
from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure
from leaven.tasks.protocol import Prediction

_REMEMBERED = 32  # predictions for unchanged inputs: a slider asks for them again and again
_subjects: dict[tuple[str, bool], Subject] = {}
_unchanged: OrderedDict[Any, Prediction] = OrderedDict()


def load(model: str, trust: bool = False) -> bool:
    """Load a model before it is asked; whether it could be is told by the questions."""
    with suppress(Exception):
        _ = _subject(model, trust).model
    return True


def open_model(model: str, trust: bool = False) -> dict[str, Any]:
    """What a model is: its task, classes and inputs. It is loaded."""
    subject = _subject(model, trust)
    bundle, manifest = subject.model, subject.model.manifest
    return {
        "task": bundle.task,
        "takes": manifest.takes.noun,
        "shape": list(manifest.shape),
        "outputs": list(bundle.classes),
        "about": bundle.target.brief,
        "scores": {name: value for name, value in bundle.scores.items() if value == value},
        "parameters": sum(parameter.numel() for parameter in bundle.model.parameters()),
        "caveats": list(manifest.caveats),
        "run": str(subject.run) if subject.run is not None else None,
        "is_finished": subject.run is None or is_finished(subject.run),
        "edits": [name for name, kind in KINDS.items() if kind.noun == manifest.takes.noun],
        "methods": list(METHODS),
    }


def predict(
    model: str, given: Given, edits: Sequence[Any] = (), k: int = 5, journal: str = "", trust: bool = False
) -> dict[str, Any]:
    """The answer of a model before and after edits."""
    subject = _subject(model, trust)
    asked = _for(subject.model, given, edits)
    if journal:
        answers: Answers = Journal(journal, trust_code=trust).ask("predictions", [subject], asked, k=k)
    else:
        answers = predictions(subject, asked, k, before=_before(subject, asked))
        _remember(subject, asked, answers.each[0])
    (answer,) = answers.each
    return {
        **answer.to_json(),
        "words": answer.words,
        "edits": [one.to_json() for one in asked.edits],
        "recipe": answers.as_recipe(),
        "python": answers.as_python(),
        "check": answers.as_check(),
    }


def vary_edit(
    model: str,
    given: Given,
    name: str,
    edits: Sequence[Any] = (),
    between: tuple[float, float] | None = None,
    values: Sequence[float] = (),
    steps: int = 21,
    k: int = 5,
    journal: str = "",
    trust: bool = False,
) -> dict[str, Any]:
    """The curve of a model while one edit grows, and where its answer flips."""
    subject = _subject(model, trust)
    asked = _for(subject.model, given, edits)
    options: dict[str, Any] = {"values": list(values), "steps": steps, "k": k}
    options |= {"between": tuple(between)} if between else {}
    if journal:
        curves = Journal(journal, trust_code=trust).ask("vary", [subject], asked, name=name, **options)
    else:
        curves = vary(subject, asked, name, **options)
    found: dict[str, Any] = curves.to_json()
    (curve,) = found.pop("curves")
    said = "; ".join(one["words"] for one in curve["flips"]) or f"the answer stays the same: {curve['answers'][0]}"
    return {**found, **curve, "words": said, "python": curves.as_python()}


def flip(
    model: str, given: Given, edits: Sequence[Any] = (), names: Sequence[str] = (), trust: bool = False
) -> dict[str, Any] | None:
    """The smallest edit with which the answer is another; None where there is none."""
    subject = _subject(model, trust)
    found = smallest_flip(subject, _for(subject.model, given, edits), list(names))
    if found is None:
        return None
    return {**found.to_json(), "words": found.words, "recipe": found.as_recipe(), "python": found.as_python()}


def explain(
    model: str,
    given: Given,
    edits: Sequence[Any] = (),
    target: str | None = None,
    method: str = "occlusion",
    layer: str = "",
    trust: bool = False,
) -> Iterator[dict[str, Any]]:
    """An attribution; of occlusion, all that is known after every few passes, from coarse to fine."""
    subject = _subject(model, trust)
    asked = _for(subject.model, given, edits)
    python = _explained_python(subject, asked, target, method, layer)
    found: Iterator[Attribution]
    if method == "occlusion" and not layer:
        found = occlusion(subject, asked, target)
    else:
        found = iter([attribute(subject, asked, target, method, layer=layer)])
    for each in found:
        yield {**each.to_json(), "python": python}


def _explained_python(subject: Subject, asked: Edited, target: str | None, method: str, layer: str) -> str:
    extra = [f"layer={layer!r}"] if layer else []
    call = ", ".join(["model", "given", repr(target), repr(method), *extra])
    trust = ", trust_code=True" if subject.trust_code else ""
    imports = f"import leaven\nfrom leaven.lab import attribute{', edit' if asked.edits else ''}\n\n"
    load = f"model = leaven.load({subject.name!r}{trust})\n"
    return f"{imports}{load}{asked.as_python('given')}found = attribute({call})\nprint(found.to_json())\n"


def compare_models(
    a: str, b: str, data: str | None = None, split: Any = None, seeds: bool = False, trust: bool = False
) -> dict[str, Any]:
    """Two models, runs or recipes side by side."""
    words = (a, b) if seeds else (_subject(a, trust), _subject(b, trust))
    found = compare(*words, data=data, split=split, seeds=seeds, trust_code=trust)
    named = {"data": data, "split": split, "seeds": seeds or None, "trust_code": trust or None}
    extra = [f"{name}={value!r}" for name, value in named.items() if value is not None]
    call = ", ".join([repr(a), repr(b), *extra])
    python = f"from leaven.lab import compare\n\nfound = compare({call})\nprint(found)\n"
    return {**found.to_json(), "python": python}


# -- inside


def layers(model: str, trust: bool = False) -> dict[str, Any]:
    """The layers of a model, as a tree in the order of its modules."""
    inside = Inspector(_subject(model, trust).model)
    known = inside.all_layers
    rows = [
        {
            "path": path,
            "type": type(module).__name__,
            "parameters": sum(each.numel() for each in module.parameters()),
            "trainable": sum(each.numel() for each in module.parameters() if each.requires_grad),
            "output": list(known.shapes[path]) if path in known.shapes else None,
            "flops": known.flops.get(path),
        }
        for path, module in inside.model.named_modules()
    ]
    return {"layers": rows, "head": list(known.head), "stem": list(known.stem), "stages": list(map(list, known.stages))}


def measure(model: str, depth: int | None = None, trust: bool = False) -> dict[str, Any]:
    """The statistics of the layers of a model."""
    return statistics(_subject(model, trust), depth=depth).to_json()


def read(
    model: str,
    layers: str,
    given: Given,
    edits: Sequence[Any] = (),
    gradients: bool = False,
    target: str | None = None,
    trust: bool = False,
) -> list[dict[str, Any]]:
    """The inputs, outputs and gradients of layers for an input."""
    bundle = _subject(model, trust).model
    asked = _for(bundle, given, edits)
    found = Inspector(bundle).read(layers, asked.value, gradients=gradients, target=target)
    return [one.to_json() for one in found]


def change(
    model: str,
    layers: str,
    given: Given,
    edits: Sequence[Any] = (),
    factor: float = 0.0,
    by: Literal["zero", "mean", "factor"] = "zero",
    k: int = 5,
    trust: bool = False,
) -> dict[str, Any]:
    """The answer of a model with layers switched off or scaled, and without that."""
    subject = _subject(model, trust)
    asked = _for(subject.model, given, edits)
    inside = Inspector(subject.model)
    (plain,) = predictions(subject, asked, k).each
    changed = inside.scale(layers, factor) if by == "factor" else inside.switch_off(layers, by)
    with changed:
        after = plain.model.predict(asked)
    method = f"scale({layers!r}, {factor!r})" if by == "factor" else f"switch_off({layers!r}, by={by!r})"
    python = (
        f"import leaven\n{'from leaven.lab import edit' + chr(10) if asked.edits else ''}\n"
        f"{plain.model.as_python('model')}{asked.as_python('given')}"
        f"with model.inspect().{method}:\n    print(model(given).describe({k}))\n"
    )
    answer = ModelAnswer(plain.model, plain.after, after, k)
    return {**answer.to_json(), "layers": list(inside.layers(layers)), "words": answer.words, "python": python}


# -- what is kept


def keep_check(model: str, given: Given, file: str, edits: Sequence[Any] = (), trust: bool = False) -> dict[str, Any]:
    """A check that edits don't change the answer, added to a file."""
    subject = _subject(model, trust)
    answers = predictions(subject, _for(subject.model, given, edits))
    return {"file": file, "check": save_check(answers, Path(file)).words}


# -- small things


def _subject(model: str, trust: bool) -> Subject:
    key = model, trust
    if key not in _subjects:
        _subjects[key] = Subject(model, trust_code=trust)
    return _subjects[key]


def _for(bundle: Bundle, given: Given, edits: Sequence[Any]) -> Edited:
    """An input that the model takes: a text is never opened as a file."""
    noun = bundle.manifest.takes.noun
    if (noun == "text") != ("text" in given):
        raise Failure(f"the model takes {noun}s, and the input is {'a text' if 'text' in given else 'an image'}")
    return edited(as_input(given), edits)


def _key(subject: Subject, asked: Edited) -> Any:
    """What an input is remembered by: a text, or a file as it is now."""
    if isinstance(asked.input, Path):
        stat = os.stat(asked.input)
        return subject.name, str(asked.input), stat.st_mtime_ns, stat.st_size
    return subject.name, asked.input


def _before(subject: Subject, asked: Edited) -> dict[str, Prediction]:
    known = _unchanged.get(_key(subject, as_edited(asked.input)))
    return {subject.name: known} if known is not None else {}


def _remember(subject: Subject, asked: Edited, answer: ModelAnswer) -> None:
    _unchanged[_key(subject, asked)] = answer.before
    while len(_unchanged) > _REMEMBERED:
        _unchanged.popitem(last=False)


CALLS: dict[str, Callable[..., Any]] = {
    "load": load,
    "open": open_model,
    "predict": predict,
    "vary": vary_edit,
    "flip": flip,
    "attribute": explain,
    "compare": compare_models,
    "layers": layers,
    "statistics": measure,
    "read": read,
    "change": change,
    "check": keep_check,
}

if __name__ == "__main__":
    pipe.serve(CALLS)
