"""The inside of a model: its layers read, changed for a while, or stopped in, by the selectors of recipes.

Everything is done by hooks of torch, which are removed when a context ends, by an exception too. Nothing of the model
is replaced, so that its outputs are the same bits afterwards. Which layers a selector means is decided in
`selected_layers.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle import Bundle
from leaven.catalog.layers import Layers
from leaven.formats.finite_json import as_json
from leaven.lab.forward import asking, batch_of, outputs
from leaven.lab.selected_layers import chosen, layers_of
from leaven.runtime.failures import Failure
from leaven.tasks.reports import finite
from leaven.tasks.scored import of_column
from leaven.terminal.visible import visible

Change = Callable[[Tensor], Tensor]  # of a layer's output
Inside = AbstractContextManager["Inspector"]


@dataclass(frozen=True, eq=False, repr=False)
class Reading:
    """One call of a layer: copies of its input and output, and the gradient of the score with respect to the output.

    Of several tensors it is the first; None where there is none.
    """

    path: str
    type: str
    input: Tensor | None
    output: Tensor | None
    gradient: Tensor | None = None

    @as_json
    def to_json(self) -> dict[str, Any]:
        """The shapes and the main statistics."""
        tensors = {"input": self.input, "output": self.output, "gradient": self.gradient}
        return {"path": self.path, "type": self.type} | {name: _summary(each) for name, each in tensors.items()}

    def __repr__(self) -> str:
        found = _summary(self.output)
        if found is None:
            return f"<Reading of {visible(self.path)} ({self.type})>"
        shape = "×".join(map(str, found["shape"]))
        return f"<Reading of {visible(self.path)} ({self.type}): output {shape}{_shown(found)}>"


class Inspector:
    """The layers of a bundle's model, or of any module: `Inspector(model).read("stages(1, 3)", "photo.jpg")`.

    Changes are contexts: `with inside.scale("head", 0.5): inside("photo.jpg")`. While one is open, everything that
    calls the model gets its changed outputs.
    """

    def __init__(self, model: Bundle | nn.Module) -> None:
        self.bundle = model if isinstance(model, Bundle) else None
        self.model: nn.Module = model.model if isinstance(model, Bundle) else model
        self.name = model.path.name if isinstance(model, Bundle) else type(model).__name__

    def __repr__(self) -> str:
        return f"<Inspector of {visible(self.name)}>"

    def __call__(self, given: Any) -> Any:
        """The prediction of a bundle, as it is now; of a module, its outputs for a batch."""
        if self.bundle is not None:
            return self.bundle(given)
        with asking(self.model, with_gradients=False):
            return self.model(given)

    # -- layers

    @cached_property
    def all_layers(self) -> Layers:
        """What is known of the layers: modules, parameters, head, stem and stages."""
        return layers_of(self.model, self.bundle.manifest.built_by if self.bundle is not None else None)

    def layers(self, selector: str) -> tuple[str, ...]:
        """The paths of the layers that a selector means."""
        if selector and selector in dict(self.model.named_modules()):  # needs no look at the model
            return (selector,)
        return chosen(selector, self.all_layers, self.name)

    # -- reading

    def read(
        self, selector: str, given: Any, *, gradients: bool = False, target: str | None = None
    ) -> tuple[Reading, ...]:
        """What goes in and out of layers for an input, in the order of their calls.

        The input of a bundle is a photo or a text, that of a module a batch. With `gradients`, also those of the
        score of `target` (a class, a label, a number or a box; of a module the number of an output), by default that
        of the answer.
        """
        paths, calls = self.layers(selector), list[_Call]()
        watched = [partial(_watch, calls, path, is_differentiated=gradients) for path in paths]
        with asking(self.model, with_gradients=gradients):
            with self._hooked(dict(zip(paths, watched, strict=True))):
                found = self._forward(given)
            if gradients:
                self._differentiate(calls, self._score(found, target))
        if missing := [path for path in paths if all(each.path != path for each in calls)]:
            raise Failure(f"{missing[0]} is not called in a forward pass, so it has neither input nor output")
        return tuple(each.reading(self.model) for each in calls)

    def _forward(self, given: Any) -> Any:
        if self.bundle is None:
            return self.model(given)
        return outputs(self.bundle, batch_of(self.bundle, self.bundle.prepare(given)))

    def _score(self, found: Any, target: str | None) -> Tensor:
        if self.bundle is not None:
            return self.bundle.manifest.task.output_score(found, self.bundle.target, target).each(found)
        if not isinstance(found, Tensor) or found.ndim != 2:
            raise Failure("gradients of a module need outputs of shape (N, outputs)", "give a bundle")
        return of_column(found, tuple(map(str, range(found.shape[1]))), target).each(found)

    def _differentiate(self, calls: "list[_Call]", score: Tensor) -> None:
        known = [each for each in calls if each.leaf is not None]
        leaves = [each.leaf for each in known if each.leaf is not None]
        slopes = torch.autograd.grad(score.sum(), leaves, allow_unused=True) if leaves and score.requires_grad else ()
        for each, slope in zip(known, slopes, strict=False):
            each.gradient = None if slope is None else slope.detach()

    # -- changes

    def set(self, selector: str, value: float | Tensor) -> Inside:
        """The outputs of layers replaced by a number, or by a tensor that fits their shape."""
        return self._changed(selector, lambda path: lambda output: _fitted(torch.as_tensor(value), output, path))

    def scale(self, selector: str, factor: float) -> Inside:
        """The outputs of layers multiplied by a factor."""
        return self._changed(selector, lambda path: lambda output: output * factor)

    def switch_off(self, selector: str, by: Literal["zero", "mean"] = "zero") -> Inside:
        """The outputs of layers replaced by zeros, or each channel by its mean over the image or the tokens."""
        changes: dict[str, Change] = {"zero": torch.zeros_like, "mean": _channel_means}
        if by not in changes:
            raise Failure(f"layers are switched off by `zero` or `mean`, not by `{by}`")
        return self._changed(selector, lambda path: changes[by])

    def patch(self, selector: str, other: Any) -> Inside:
        """The outputs of layers replaced by those for another input."""
        known: dict[str, list[Tensor]] = {}
        for one in self.read(selector, other):
            if one.output is not None:
                known.setdefault(one.path, []).append(one.output)
        return self._changed(selector, lambda path: partial(_next_of, cycle(known.get(path, [])), path))

    def stop(self, selector: str) -> Inside:
        """Python's debugger opens before each layer runs; `layer` and `inputs` are there, and `step` enters it."""
        return self._open({path: partial(_stop, path) for path in self.layers(selector)}, is_before=True)

    def _changed(self, selector: str, change: Callable[[str], Change]) -> Inside:
        return self._open({path: partial(_replace, change(path)) for path in self.layers(selector)})

    @contextmanager
    def _open(self, hooks: Mapping[str, Callable[..., Any]], *, is_before: bool = False) -> Iterator["Inspector"]:
        with self._hooked(hooks, is_before=is_before):
            yield self

    @contextmanager
    def _hooked(self, hooks: Mapping[str, Callable[..., Any]], *, is_before: bool = False) -> Iterator[None]:
        """A hook for each layer, removed at the end."""
        with ExitStack() as registered:
            for path, hook in hooks.items():
                layer = self.model.get_submodule(path)
                register = layer.register_forward_pre_hook if is_before else layer.register_forward_hook
                registered.callback(register(hook).remove)
            yield


# -- hooks


@dataclass(eq=False)
class _Call:
    """A call of a layer while it is read; `leaf` is the tensor whose gradient is wanted."""

    path: str
    input: Tensor | None
    output: Tensor | None
    leaf: Tensor | None = None
    gradient: Tensor | None = None

    def reading(self, model: nn.Module) -> Reading:
        kind = type(model.get_submodule(self.path)).__name__
        return Reading(self.path, kind, self.input, self.output, self.gradient)


def _watch(
    calls: list[_Call], path: str, layer: nn.Module, inputs: Any, output: Any, *, is_differentiated: bool
) -> Any:
    """Notes a call. Tensors are copied, since later layers may change them in place."""
    found = _first(output)
    calls.append(_Call(path, _copied(_first(inputs)), _copied(found)))
    if found is None or not is_differentiated or not found.is_floating_point():
        return None
    calls[-1].leaf = found if found.requires_grad else found.requires_grad_()
    return _with_first(output, calls[-1].leaf.clone())


def _replace(change: Change, layer: nn.Module, inputs: Any, output: Any) -> Any:
    found = _first(output)
    if found is None:
        raise Failure(f"the output of a {type(layer).__name__} has no tensor that could be changed")
    return _with_first(output, change(found))


def _stop(path: str, layer: nn.Module, inputs: Any) -> None:
    breakpoint()


def _first(value: Any) -> Tensor | None:
    return next((leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, Tensor)), None)


def _with_first(value: Any, tensor: Tensor) -> Any:
    """The same value with another tensor in place of its first."""
    leaves, form = _pytree.tree_flatten(value)
    at = next(at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
    return _pytree.tree_unflatten([*leaves[:at], tensor, *leaves[at + 1 :]], form)


def _copied(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


# -- changes of an output


def _fitted(value: Tensor, output: Tensor, path: str) -> Tensor:
    try:
        return value.to(output).expand_as(output).clone()
    except RuntimeError:
        given, wanted = ("×".join(map(str, each.shape)) for each in (value, output))
        raise Failure(f"{path} puts out {wanted}, which a tensor of {given} can't replace") from None


def _next_of(known: Iterator[Tensor], path: str, output: Tensor) -> Tensor:
    """A layer may be called several times in a forward pass, each time with a value of its own."""
    return _fitted(next(known), output, path)


def _channel_means(output: Tensor) -> Tensor:
    """Channels are the second dimension of images, and the last of tokens and of a single row."""
    places = tuple(range(2, output.ndim)) if output.ndim > 3 else (1,)
    return output.mean(dim=places, keepdim=True).expand_as(output).clone()


# -- a tensor in short


def _summary(tensor: Tensor | None) -> dict[str, Any] | None:
    if tensor is None:
        return None
    if not tensor.numel():
        return {"shape": list(tensor.shape)}
    numbers = tensor.double()
    told = {
        "mean": numbers.mean(),
        "deviation": numbers.std(correction=0),
        "least": numbers.min(),
        "most": numbers.max(),
    }
    return {"shape": list(tensor.shape)} | finite({name: float(value) for name, value in told.items()})


def _shown(summary: Mapping[str, Any]) -> str:
    """The mean for a person; a tensor with NaN or infinity in it has none."""
    if "mean" not in summary:
        return ", empty"
    return ", not finite" if summary["mean"] is None else f", mean {summary['mean']:.4g}"
