"""Where a model's weights come from, and its head."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.metadata import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import load_file as load_safetensors
from torch import nn

from leaven.plain.failures import Failure
from leaven.runtime.model.looking import NotCopied
from leaven.runtime.model.weights import WRAPPINGS, _bare_name, _shrink_like, load_fitting, read_weights
from leaven.runtime.seeding import generators_kept


def import_file(file: str, name: str) -> ModuleType:
    """A Python file as a module; its path starts in the working directory, or else in the folder of the program."""
    path = Path(file).resolve()
    if not path.is_file():
        path = Path(__file__).resolve().parent / file
    name += "_" * (name in sys.stdlib_module_names or name in sys.modules)  # libraries must find theirs
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.append(str(path.parent))  # for imports from the file's own folder
    before = os.getcwd()
    spec.loader.exec_module(module)
    if os.getcwd() != before:  # other paths would lead elsewhere
        raise Failure(f"{file} changes the working directory when it is imported", "remove `os.chdir` from it")
    return module


def inside(model: nn.Module) -> nn.Module:
    """The model itself: in a standalone program, none is around it."""
    return model


@contextmanager
def looking_at(model: nn.Module, *, or_itself: bool = False) -> Iterator[nn.Module]:
    """A copy of a model, or else the model itself if that is allowed; afterwards random numbers go on as before."""
    try:
        copied = deepcopy(model)
    except Exception as problem:
        if not or_itself:
            raise NotCopied(f"{type(model).__name__} can't be copied: {problem}") from None
        copied = model
    with generators_kept():
        yield copied


# -- weights


def load_packaged(model: nn.Module, package: str) -> None:
    """Load the weights in an installed package by their order: the names in it are others."""
    (file,) = [file for file in files(package) or () if file.suffix in (".pth", ".pt", ".bin")]
    state = torch.load(file.locate(), map_location="cpu", weights_only=True)
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))


def packaged_weights(package: str) -> Path:
    """The file of weights in an installed package."""
    return next(Path(str(file.locate())) for file in files(package) or () if file.suffix in (".pth", ".pt", ".bin"))


def load_state(model: nn.Module, file: str, new: Sequence[str] = ()) -> None:
    """Load the weights of a file into a model, except for the layers in `new`. All else must fit."""
    state = load_safetensors(file) if file.endswith(".safetensors") else torch.load(file, weights_only=True)
    for wrapping in WRAPPINGS:
        state = state[wrapping] if isinstance(state.get(wrapping), dict) else state
    own = model.state_dict()
    wanted = [name for name in own if not f"{name}.".startswith(tuple(f"{path}." for path in new))]
    found = {_bare_name(name, own): value for name, value in state.items()}
    missing = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    if missing:
        raise Failure(f"{file} does not fit the model: it has no {missing[0]}")
    model.load_state_dict({name: found[name] for name in wanted if name in found}, strict=False)


def load_weights(model: nn.Module, file: str | os.PathLike[str], new: Sequence[str] = ()) -> None:
    """Load the weights of a file or a bundle into a model, except for what is under the paths in `new`.

    All else must fit. Where no names are the same, the order of the weights counts.
    """
    there = read_weights(file)
    _shrink_like(model, file, there, new)
    wanted = model.state_dict()
    if not there.keys() & wanted.keys() and len(there) == len(wanted):
        there = dict(zip(wanted, there.values(), strict=True))
    load_fitting(model, file, there, new)


# -- heads


def replace_head(model: nn.Module, path: str, classes: int) -> None:
    """Replace a layer with a new one of its kind that has one output per class."""
    parent, _, name = path.rpartition(".")
    old: Any = model.get_submodule(path)
    kind: Any = nn.Linear if isinstance(old, nn.Linear) else nn.Conv2d
    sizes = (old.in_features, classes) if kind is nn.Linear else (old.in_channels, classes, old.kernel_size)
    setattr(model.get_submodule(parent), name, kind(*sizes, bias=old.bias is not None))
