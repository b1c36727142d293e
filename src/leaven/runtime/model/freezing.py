"""Which parameters are trainable, and which modules stay in evaluation mode.

A selection is a set of parameters; the path of a module means all parameters in it. A module is frozen when it has
parameters and all of them are frozen: then it is in evaluation mode, so that its dropout is off and its running
statistics do not change. A module without parameters follows its parent. In training, `frozen_layers` are put back into
evaluation mode after whatever has called `.train()`, before every batch.

Parameters are named as in the model as it was built. An adapter around a layer changes the path to its weights
(`fc.base_layer.weight`), and so does a mask (`fc.parametrizations.weight.original`), but not their names here. The
parameters that an adapter adds belong to the layer: they are in its optimizer group, and are never frozen. Layers that
are frozen only because of an adapter can be listed in `keep_dropout`: their statistics don't change, their dropout is
on.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from torch import distributed, nn

from leaven.formats.layer_names import is_under
from leaven.runtime.failures import Failure
from leaven.runtime.model.masks import Mask, plain_name
from leaven.runtime.model.model_around import inside

Norms = Literal["frozen", "train"] | Sequence[str]


@dataclass(frozen=True)
class _Frozen:
    """What a freeze did: the parameters that it froze, those of them that were trainable before, those in whose layers
    statistics are still updated, or dropout is on, and the layers that are in evaluation mode."""

    names: frozenset[str] = frozenset()
    were_trainable: frozenset[str] = frozenset()
    norms_on: frozenset[str] = frozenset()
    dropout_on: frozenset[str] = frozenset()
    layers: frozenset[str] = frozenset()  # in evaluation mode


_frozen: WeakKeyDictionary[nn.Module, _Frozen] = WeakKeyDictionary()  # what was frozen in a model, until that ends


class _Named(NamedTuple):
    """A parameter with its name in the model as it was built; `is_own` is False for what an adapter added."""

    name: str
    parameter: nn.Parameter
    is_own: bool


def freeze(
    model: nn.Module,
    *,
    all_but: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    norms: Norms = "frozen",
    keep_dropout: bool | Sequence[str] = False,
) -> None:
    """Freeze parameters, given by name or by the path of a module; all of them by default.

    An earlier freeze ends first. With `norms="train"`, frozen layers still update their running statistics; with
    `keep_dropout`, their dropout stays on. A list of layers means only these.
    """
    if all_but is not None and only is not None:
        raise ValueError("give either `only` or `all_but`")
    unfreeze(model)
    if only is not None:
        frozen = parameters_under(model, only)
    else:
        frozen = parameters_under(model, [""]) - parameters_under(model, all_but or ())
    _freeze(model, frozen, _part(model, norms, frozen), _part(model, keep_dropout, frozen))


def unfreeze(model: nn.Module, paths: Sequence[str] | None = None) -> None:
    """End a freeze: what it froze is trainable again, unless it was not before. With `paths`, only these parameters
    become trainable, and the rest stays frozen."""
    before = _frozen.get(model, _Frozen())
    chosen = parameters_under(model, paths or ())
    for module in list(model.modules()):
        if (ended := _frozen.pop(module, None)) is not None:
            for name, parameter, is_own in _named(module):
                if is_own and name in ended.were_trainable:
                    parameter.requires_grad_(True)
    model.train(model.training)
    if paths is None:
        return
    for parameter in chosen:
        parameter.requires_grad_(True)
    frozen = parameters_under(model, sorted(before.names)) - chosen
    _freeze(model, frozen, _part(model, before.norms_on, frozen), _part(model, before.dropout_on, frozen))


def unfreeze_by_epoch(model: nn.Module, epoch: int, *later: tuple[int, Sequence[str]], norms: Norms = "frozen") -> None:
    """Freeze what is trained only after this epoch, besides what is frozen for the whole phase, and unfreeze the rest.

    Each of `later` gives a number of epochs and the paths that are frozen until then. With `norms="train"`, these
    layers update their running statistics meanwhile; a list of layers means only these.
    """
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        # DDP fixes at its creation which parameters have gradients
        raise Failure("on several devices, layers can't be unfrozen in the middle of a phase", "use two phases instead")
    before = _frozen.get(model, _Frozen())
    due = parameters_under(model, [path for at, paths in later if at <= epoch for path in paths])
    waiting = parameters_under(model, [path for at, paths in later if at > epoch for path in paths])
    unfreeze(model)
    for parameter in due:
        parameter.requires_grad_(True)
    frozen = (parameters_under(model, sorted(before.names)) | waiting) - due
    norms_on = _part(model, before.norms_on, frozen) | _part(model, norms, waiting)
    _freeze(model, frozen, norms_on, _part(model, before.dropout_on, frozen))


def frozen_copy(model: nn.Module) -> nn.Module:
    """A copy of a model that never changes."""
    copied = deepcopy(model)
    freeze(copied)
    return copied


def trainable(model: nn.Module, paths: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[nn.Parameter]:
    """The trainable parameters; only those under `paths` if given, and none under `but`."""
    chosen = parameters_under(model, [""] if paths is None else paths, with_adapters=True)
    chosen -= parameters_under(model, but, with_adapters=True)
    return [parameter for parameter in model.parameters() if parameter in chosen and parameter.requires_grad]


def parameter_groups(model: nn.Module, *chosen: tuple[Sequence[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The trainable parameters as optimizer groups: first all that are in no group, then each group."""
    named = [path for paths, _ in chosen for path in paths]
    groups = [{"params": trainable(model, paths), **settings} for paths, settings in chosen]
    return [{"params": trainable(model, but=named)}, *groups]


def set_training(model: nn.Module) -> None:
    """Training mode for a model, but not for its frozen layers."""
    model.train()
    for layer in frozen_layers(model):
        layer.training = False


def frozen_layers(model: nn.Module) -> list[nn.Module]:
    """The modules that are in evaluation mode because they are frozen."""
    names = _frozen.get(inside(model), _Frozen()).layers
    return [module for name, module in model.named_modules() if name in names]


def parameters_under(model: nn.Module, paths: Sequence[str], *, with_adapters: bool = False) -> set[nn.Parameter]:
    """The parameters with these names, or in modules with these paths; the empty path is the model itself.

    A path may be a glob, in which a star matches anything: `blocks.*.bn1`. Parameters that adapters added are included
    only `with_adapters`.
    """
    named = list(_named(inside(model)))
    chosen: set[nn.Parameter] = set()
    for path in paths:
        found = [one for one in named if not path or is_under(one.name, [path])]
        if not any(one.is_own for one in found):
            raise Failure(f"the model has no parameter or layer named {path}")
        chosen |= {one.parameter for one in found if one.is_own or with_adapters}
    return chosen


def has_adapter(module: nn.Module) -> bool:
    """Whether a module is an adapter around a layer, as PEFT makes them."""
    return bool(getattr(type(module), "adapter_layer_names", ())) and "base_layer" in module._modules


def _named(module: nn.Module, prefix: str = "", is_own: bool = True) -> Iterator[_Named]:
    """Every parameter; one that is used in two places under both names."""
    is_masked = any(isinstance(child, Mask) for child in module.children())
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield _Named(plain_name(prefix + name) if is_masked else prefix + name, parameter, is_own)
    for name, child in module._modules.items():
        if child is None:
            continue
        if has_adapter(module):
            is_layer = name == "base_layer"
            yield from _named(child, prefix if is_layer else f"{prefix}{name}.", is_own and is_layer)
        else:
            yield from _named(child, f"{prefix}{name}.", is_own)


def _part(model: nn.Module, layers: Norms | bool | frozenset[str], of: set[nn.Parameter]) -> set[nn.Parameter]:
    """Some of the frozen parameters: a word or a bool means all or none of them."""
    if isinstance(layers, str | bool):
        return of if layers in ("train", True) else set()
    return parameters_under(model, sorted(layers)) & of


def _freeze(
    model: nn.Module, frozen: set[nn.Parameter], norms_on: set[nn.Parameter], dropout_on: set[nn.Parameter]
) -> None:
    named = [one for one in _named(model) if one.parameter in frozen]
    own = {one.parameter for one in _named(model) if one.is_own}

    def modes_in(
        module: nn.Module, *, keeps_statistics: bool = False, is_eval: bool = False
    ) -> Iterator[tuple[nn.Module, bool]]:
        """A module and all in it, each with whether it stays in evaluation mode; a module without parameters follows
        its parent."""
        if parameters := own.intersection(module.parameters()):
            is_frozen = parameters <= frozen
            keeps_statistics = is_frozen and not parameters <= norms_on
            is_eval = is_frozen and not parameters & dropout_on
        if has_adapter(module):
            yield module, False  # an adapter is trained, and its own dropout is on
            children = [module.get_submodule("base_layer")]
        else:
            yield module, keeps_statistics if _has_running_statistics(module) else is_eval
            children = list(module.children())
        for child in children:
            yield from modes_in(child, keeps_statistics=keeps_statistics, is_eval=is_eval)

    modes = list(modes_in(model))
    # a module that is used in two places is in evaluation mode only if it is in both
    in_training = {module for module, is_eval in modes if not is_eval}
    still = {module for module, _ in modes} - in_training
    were_trainable = frozenset(one.name for one in named if one.parameter.requires_grad)
    for parameter in frozen:
        parameter.requires_grad_(False)
        parameter.grad = None  # else gradient clipping would still count that of the last phase
    _frozen[model] = _Frozen(
        names=frozenset(one.name for one in named),
        were_trainable=were_trainable,
        norms_on=frozenset(one.name for one in named if one.parameter in norms_on),
        dropout_on=frozenset(one.name for one in named if one.parameter in dropout_on),
        layers=frozenset(name for name, module in model.named_modules() if module in still),
    )
    model.train(model.training)
    for module in still:
        module.training = False


def _has_running_statistics(module: nn.Module) -> bool:
    """Whether a module is a normalisation with running statistics: BatchNorm, and whatever works like it."""
    return any(name.startswith("running_") for name, _ in module.named_buffers(recurse=False))
