"""Which layers of a model are its head, its stem and its stages.

What a library says (timm's classifier, first convolution and parameter groups) is used; otherwise common names and the
layers themselves decide. What can't be found is empty.
"""

import re
from collections.abc import Iterable
from typing import Any

from torch import nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d)
_BODIES = frozenset(
    {"features", "blocks", "stages", "layers", "levels", "body", "backbone", "encoder", "trunk", "trunk_output"}
    | {"model", "network", "net", "transformers", "dense_stages"}
)
_STEM_SHARE = 0.2  # of the parameters; what has more is not just a stem
_NUMBERED = re.compile(
    r"(?:(?:layer|stage|level|(?:serial_)?blocks?|denseblock|transition|s)_?|inception|[Mm]ixed_)(\d+)[a-e]?"
)
_SEARCHED_DEPTH = 3


# -- head


def head(model: nn.Module) -> list[str]:
    """The classifier as timm names it, or the last linear layer (else convolution) of a torchvision classifier."""
    if config := _configuration(model):
        return _existing(model, config.get("classifier"))
    if not type(model).__module__.startswith("torchvision.models"):
        return []
    if type(model).__module__.split(".")[2] in ("detection", "segmentation", "video", "optical_flow"):
        return []
    named = list(model.named_modules())
    for kinds in ((nn.Linear,), _CONVOLUTIONS):
        if found := [path for path, module in named if isinstance(module, kinds)]:
            return found[-1:]
    return []


def _configuration(model: nn.Module) -> dict[str, Any]:
    """timm's configuration of its model; empty for others."""
    config = getattr(model, "pretrained_cfg", None)
    return config if isinstance(config, dict) else {}


def _existing(model: nn.Module, named: Any) -> list[str]:
    """The named paths that are modules with parameters."""
    paths = [named] if isinstance(named, str) else list(named or ())
    modules = dict(model.named_modules())
    return [path for path in paths if path in modules and has_weights(modules[path])]


def last_stage(model: nn.Module) -> list[str]:
    """The last child with weights."""
    return [path for path, child in model.named_children() if has_weights(child)][-1:]


def has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _weight_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# -- layers that take adapters


def is_plain(module: nn.Module) -> bool:
    """Whether a layer does nothing but multiply by its weights, so that an adapter can be added.

    A subclass may do more, such as pad in its own way or standardise its weights before use.
    """
    if type(module) is nn.Linear:
        return True
    return (
        type(module) is nn.Conv2d
        and module.groups == 1
        and set(module.dilation) == {1}
        and module.padding_mode == "zeros"
    )


# -- stem


def stem(model: nn.Module) -> list[str]:
    """The first convolution with what belongs to it, and the normalisation after it."""
    first = _first_convolutions(model)
    roots = list(dict.fromkeys(_stem_root(model, path) for path in first))
    if not roots:
        return [path for path, child in model.named_children() if path.startswith("stem") and has_weights(child)]
    return [*roots, *_norm_after(model, roots[-1])]


def _first_convolutions(model: nn.Module) -> list[str]:
    if named := _existing(model, _configuration(model).get("first_conv")):
        return named
    return [path for path, module in model.named_modules() if path and isinstance(module, _CONVOLUTIONS)][:1]


def _stem_root(model: nn.Module, path: str) -> str:
    """The outermost module around the first convolution that is still only a stem."""
    total = _weight_count(model)
    pieces = path.split(".")
    for length in range(1, len(pieces)):
        outer = ".".join(pieces[:length])
        if pieces[length - 1] not in _BODIES and _weight_count(model.get_submodule(outer)) <= _STEM_SHARE * total:
            return outer
    return path


def _norm_after(model: nn.Module, path: str) -> list[str]:
    """The normalisation after a module, if nothing else with weights comes between them."""
    parent, _, name = path.rpartition(".")
    siblings = list(model.get_submodule(parent).named_children())
    names = [sibling for sibling, _ in siblings]
    for sibling, module in siblings[names.index(name) + 1 :]:
        if "Norm" in type(module).__name__ and not any(isinstance(part, _CONVOLUTIONS) for part in module.modules()):
            return [f"{parent}.{sibling}".lstrip(".")]
        if has_weights(module):
            break
    return []


# -- stages


def stages(model: nn.Module, stem: list[str]) -> list[list[str]]:
    """The stages of the body from input to output, each as the paths of its modules."""
    grouped = [[path for path in stage if path not in stem] for stage in _timm_stages(model)]
    return [stage for stage in grouped if stage] or _named_stages(model, stem)


def pipeline_stages(model: nn.Module, stem: list[str], head: list[str]) -> list[list[str]]:
    """The stages of a pipeline: its components between stem and head that have parameters."""
    taken = {path.partition(".")[0] for path in (*stem, *head)}
    return [[path] for path, child in model.named_children() if has_weights(child) and path not in taken]


def _timm_stages(model: nn.Module) -> list[list[str]]:
    """The stages by timm's own grouping of parameters."""
    try:
        blocks: Any = model.group_matcher(coarse=True)["blocks"]  # type: ignore[operator]
    except (AttributeError, AssertionError, KeyError, TypeError):
        return []
    patterns = [blocks] if isinstance(blocks, str) else [pattern for pattern, fixed in blocks if fixed is None]
    groups: dict[tuple[int, ...], dict[str, None]] = {}
    modules = dict(model.named_modules())
    for name, _ in model.named_parameters():
        for pattern in patterns:
            if (match := re.match(pattern, name)) and match.groups() and match[0].rstrip(".") in modules:
                numbers = tuple(int(number) for number in match.groups() if number and number.isdigit())
                groups.setdefault(numbers, {})[match[0].rstrip(".")] = None
                break
    paths = [list(groups[numbers]) for numbers in sorted(groups)]
    if all(not list(modules[path].children()) for stage in paths for path in stage):
        return []  # single layers are not stages
    return paths if len(paths) > 1 else []


def _named_stages(model: nn.Module, stem: list[str]) -> list[list[str]]:
    """The stages by common names, the outermost that has any."""
    shallow = [(path, module) for path, module in model.named_modules() if path.count(".") < _SEARCHED_DEPTH]
    for path, module in sorted(shallow, key=lambda item: item[0].count(".") + bool(item[0])):
        for found in (_numbered(path, module), _contained(path, module, stem)):
            if len(found) > 1:
                return found
    return []


def _numbered(path: str, module: nn.Module) -> list[list[str]]:
    """Children such as `layer1` to `layer4`; those with the same number belong together."""
    groups: dict[int, list[str]] = {}
    for name, child in module.named_children():
        if (match := _NUMBERED.fullmatch(name)) and has_weights(child):
            groups.setdefault(int(match[1]), []).append(f"{path}.{name}".lstrip("."))
    return [groups[number] for number in sorted(groups)]


def _contained(path: str, module: nn.Module, stem: list[str]) -> list[list[str]]:
    """The children of a body such as `features` or `blocks`."""
    if path.rpartition(".")[2] not in _BODIES or not isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        return []
    children = [(f"{path}.{name}", child) for name, child in module.named_children()]
    blocks = [(path, child) for path, child in children if list(child.children()) and path not in stem]
    if not blocks:
        return _between_pools(children)
    found: list[list[str]] = []
    group: list[str] = []
    for child_path, child in blocks:
        if not has_weights(child):
            continue
        group.append(child_path)
        if not _is_transition(child):
            found.append(group)
            group = []
    return found


def _between_pools(children: Iterable[tuple[str, nn.Module]]) -> list[list[str]]:
    """A flat sequence of layers, split at its pooling layers."""
    found: list[list[str]] = [[]]
    for path, child in children:
        if isinstance(child, _POOLS):
            found.append([])
        elif has_weights(child):
            found[-1].append(path)
    return [stage for stage in found if stage]


def _is_transition(module: nn.Module) -> bool:
    """Whether a module only downsamples for the stage after it."""
    if type(module).__name__.startswith("PatchMerging"):
        return True
    parts = list(module.children())
    weighted = [part for part in parts if has_weights(part)]
    is_flat = isinstance(module, nn.Sequential) and not any(list(part.children()) for part in parts)
    return is_flat and len(weighted) <= 2 and any("Norm" in type(part).__name__ for part in weighted[:1])


# -- input and output


def input_channels(model: nn.Module, arguments: dict[str, Any]) -> int | None:
    """How many channels the model takes: as timm says, or as the first convolution takes them."""
    if config := _configuration(model):
        return int(arguments.get("in_chans") or config["input_size"][0])
    for path in _first_convolutions(model):
        module = model.get_submodule(path)
        if isinstance(module, _CONVOLUTIONS):
            return module.in_channels
    return None


def classes(model: nn.Module, head: list[str]) -> int | None:
    """How many outputs the head has."""
    number = getattr(model, "num_classes", None)
    if isinstance(number, int):
        return number
    for path in head[:1]:
        module = model.get_submodule(path)
        for field in ("out_features", "out_channels"):
            if isinstance(value := getattr(module, field, None), int):
                return value
    return None


def fixed_input_size(model: nn.Module, arguments: dict[str, Any]) -> list[int] | None:
    """The only height and width that the model takes; None where it takes others."""
    if config := _configuration(model):
        return usual_size(model, arguments) if config.get("fixed_input_size") else None
    side = getattr(model, "image_size", None)
    if isinstance(side, int):
        return [side, side]
    return _pair(arguments.get("input_size", 224)) if type(model).__name__ == "MaxVit" else None


def usual_size(model: nn.Module, arguments: dict[str, Any]) -> list[int] | None:
    """The height and width that the model was made for."""
    if asked := arguments.get("img_size") or arguments.get("image_size"):
        return _pair(asked)
    if config := _configuration(model):
        return [int(side) for side in config["input_size"][1:]]
    if type(model).__name__ == "Inception3":
        return [299, 299]
    side = getattr(model, "image_size", None)
    return [side, side] if isinstance(side, int) else None


def _pair(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)
