"""The attribution of an answer: which pixels or tokens of an input support it.

Gradients are computed by Captum; occlusion needs nothing but forward passes. Which number of the outputs is explained,
the task decides (`output_score`), and what a part of an input is, `explained.py`.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from leaven.bundle import Bundle
from leaven.lab.answers import Model, asked
from leaven.lab.explained import Attribution, Question, question_of
from leaven.lab.forward import asking
from leaven.lab.inspector import Inspector
from leaven.runtime.failures import Failure

STEPS = 32  # of integrated gradients, from the baseline to the input
AT_ONCE = 8  # inputs in a batch


def attribute(
    model: Model, given: Any, target: str | None = None, method: str = "integrated_gradients", *, layer: str = ""
) -> Attribution:
    """The attribution of one score: of the answer, or of a `target` (a class, a label, a number, `cat 2` for a box).

    `method` is `integrated_gradients`, `gradient` (input × gradient), `grad_cam` or `occlusion`. For `grad_cam`,
    `layer` is a selector; by default it is the model's last stage.
    """
    if method not in METHODS:
        raise Failure(f"there is no method {method}", f"choose one of {', '.join(METHODS)}")
    if layer and method != "grad_cam":
        raise Failure(f"`{method}` explains the input itself; only `grad_cam` takes a layer")
    if method == "occlusion":
        *_, last = occlusion(model, given, target)
        return last
    bundle = _asked(model)
    with asking(bundle.model, with_gradients=True):
        question = question_of(bundle, given, target)
        values = GRADIENTS[method](question, layer)
        return question.attribution(values.detach(), method)


def occlusion(model: Model, given: Any, target: str | None = None) -> Iterator[Attribution]:
    """The same by covering parts of the input, from coarse to fine; every few passes, all that is known so far.

    Stop by leaving the loop. Each value is the loss of score where a part is covered, spread over its pixels or tokens.
    """
    bundle = _asked(model)
    with asking(bundle.model, with_gradients=False):
        question = question_of(bundle, given, target)
        values, levels = torch.zeros(question.places), question.levels()
    for level in levels:
        for start in range(0, len(level), AT_ONCE):
            parts = level[start : start + AT_ONCE]
            with asking(bundle.model, with_gradients=False):  # closed while the caller has the value
                losses = question.score - question.scores(question.covered(parts))
            for part, loss in zip(parts, losses.tolist(), strict=True):
                values[part] = loss / int(part.sum())
            is_last = level is levels[-1] and start + AT_ONCE >= len(level)
            yield question.attribution(values.clone(), "occlusion", is_final=is_last)


def _asked(model: Model) -> Bundle:
    (one,) = asked(model)
    return one.bundle


# -- methods


def _captum(name: str) -> Any:
    try:
        return getattr(import_module("captum.attr"), name)
    except ImportError:
        raise Failure(
            "attribution by gradients needs captum", "pip install 'leaven[lab]', or use the method occlusion"
        ) from None


def _gradient(question: Question, layer: str) -> Tensor:
    method = _captum("InputXGradient")(question.scores)
    return _summed(question, method.attribute(question.tensor.clone().requires_grad_()))


def _integrated_gradients(question: Question, layer: str) -> Tensor:
    method = _captum("IntegratedGradients")(question.scores)
    found = method.attribute(
        question.tensor.clone().requires_grad_(),
        baselines=question.baseline,
        n_steps=STEPS,
        internal_batch_size=AT_ONCE,
    )
    return _summed(question, found)


def _summed(question: Question, found: Tensor) -> Tensor:
    return found[0].sum(dim=question.channels).float().cpu()


def _grad_cam(question: Question, selector: str) -> Tensor:
    path, layer = _cam_layer(question.bundle, selector)
    found = _captum("LayerGradCam")(question.scores, layer).attribute(question.tensor.clone().requires_grad_())
    if not isinstance(found, Tensor) or found.ndim != 4 or len(question.places) != 2:
        raise Failure(f"the output of {path} is not a map of the image", "use another layer, or another method")
    resized = nn.functional.interpolate(found.float(), size=question.places, mode="bilinear", align_corners=False)
    return resized[0, 0].cpu()


def _cam_layer(bundle: Bundle, selector: str) -> tuple[str, nn.Module]:
    """The layer that a selector means; by default the last of the last stage."""
    inside = Inspector(bundle)
    stages = inside.all_layers.stages if not selector else ()
    if not selector and not stages:
        raise Failure(f"the stages of {inside.name} are unknown", "choose a layer")
    path = inside.layers(selector)[-1] if selector else stages[-1][-1]
    return path, bundle.model.get_submodule(path)


GRADIENTS: dict[str, Callable[..., Tensor]] = {
    "integrated_gradients": _integrated_gradients,
    "gradient": _gradient,
    "grad_cam": _grad_cam,
}
METHODS = (*GRADIENTS, "occlusion")
