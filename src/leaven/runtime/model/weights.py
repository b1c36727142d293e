"""Where a model's weights come from: a file, a bundle, an installed package, a hub.

Decides what a file of weights may look like and which of its entries belongs to which of the model's. No code in a
file is ever run. How a model is built, and which of its layers are newly initialised, the program says.
"""

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path, PurePath
from typing import Any

import torch
from torch import Tensor, nn

from leaven.formats.layer_names import is_under
from leaven.runtime.failures import Failure
from leaven.runtime.model.builder import loads_weights
from leaven.runtime.model.masks import with_masks_applied
from leaven.runtime.model.pruned_shapes import shrink
from leaven.terminal import status_line

PREFIXES = ("module.", "model.", "_orig_mod.", "backbone.")  # that wrappers add to every name
WRAPPINGS = ("state_dict", "model_state_dict", "model", "module", "net", "weights", "params", "state")
WEIGHT_ENDINGS = (".pth", ".pt", ".th", ".safetensors", ".bin")
BUNDLED_WEIGHTS = "weights.safetensors"
BUNDLED_CHECKSUMS = "checksums.json"
BUNDLED_MANIFEST = "bundle.json"
_LARGEST_MANIFEST = 16 * 2**20
MOST_LISTED = 8


@dataclass(frozen=True)
class Starter:
    """The weights of an installed package, for a model whose entries have other names in the same order."""

    file: Path

    def __fspath__(self) -> str:
        return str(self.file)


def load_weights(model: nn.Module, file: str | os.PathLike[str], new: Sequence[str] = ()) -> list[str]:
    """Load the weights of a file into a model, except for what is under the paths in `new`: all else must fit.

    Returns the entries of the model that have its weights.
    """
    if not loads_weights():
        return []
    if isinstance(file, Starter):
        with _reading(file):
            return load_in_order(model, file, new)
    with _reading(file):
        there = read_weights(file)
    _shrink_like(model, file, there, new)
    return load_fitting(model, file, there, new)


def load_fitting(
    model: nn.Module, file: str | os.PathLike[str], there: Mapping[str, Tensor], new: Sequence[str]
) -> list[str]:
    """Load the entries of a file into a model, by their names, except for what is under the paths in `new`."""
    wanted = model.state_dict()
    entries = _fitted(there, wanted, new)
    fresh = [name for name in wanted if is_under(name, new)]
    missing = [n for n in wanted if n not in entries and n not in fresh and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in entries if name not in wanted and not is_under(name, new)]
    both = [name for name in wanted if name in entries and name not in fresh]
    misshapen = [
        _shapes_of(name, entries[name], wanted[name]) for name in both if entries[name].shape != wanted[name].shape
    ]
    if missing or unexpected or misshapen:
        raise _misfit(os.fspath(file), missing, unexpected, misshapen)
    model.load_state_dict({name: entries[name] for name in both}, strict=False)
    return both


def load_in_order(model: nn.Module, file: str | os.PathLike[str], new: Sequence[str] = ()) -> list[str]:
    """Load weights with other names but in the model's own order; kinds and shapes must agree."""
    source = os.fspath(file)
    there = read_weights(file)
    wanted = model.state_dict()
    if len(there) != len(wanted):
        raise Failure(f"{source} does not fit the model: it has {len(there)} entries, the model {len(wanted)}")
    entries, misshapen = {}, []
    for name, (other, value) in zip(wanted, there.items(), strict=True):
        if is_under(name, new):
            continue
        entries[name] = value
        if value.shape != wanted[name].shape or name.rpartition(".")[2] != other.rpartition(".")[2]:
            misshapen.append(f"{_shapes_of(name, value, wanted[name])} ({other})")
    if misshapen:
        raise _misfit(source, [], [], misshapen)
    model.load_state_dict(entries, strict=False)
    return list(entries)


def packaged_weights(package: str) -> Starter:
    """The file of weights in an installed package."""
    if not loads_weights():
        return Starter(Path(package))
    return Starter(packaged_files(package, "weights", lambda file: file.suffix in WEIGHT_ENDINGS)[0])


def packaged_files(package: str, what: str, is_one: Callable[[PurePath], bool]) -> list[Path]:
    """The files of a kind in an installed package, one at least."""
    try:
        found = [Path(str(file.locate())) for file in files(package) or () if is_one(file)]
    except PackageNotFoundError:
        raise Failure(f"the package {package} is not installed", f"pip install {package}") from None
    if there := [file for file in found if file.is_file()]:
        return there
    raise Failure(f"the package {package} has no {what} in it", f"pip install --force-reinstall {package}")


# -- reading


def _reading(file: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Says in the terminal which file is read, and how large it is."""
    size = f" ({os.path.getsize(file) / 1e6:,.0f} MB)" if os.path.isfile(file) else ""
    return status_line.doing(f"loading {os.fspath(file)}{size}…")


def read_weights(file: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors in a file of weights, a checkpoint or a bundle, by their names there."""
    path = Path(os.fspath(file))
    if not path.is_file():
        raise Failure(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}")
    try:
        content = _content(path)
    except Exception as problem:  # a file of another kind makes readers raise nearly anything
        raise _unreadable(path, problem) from None
    tensors = _unwrapped(content)
    if not tensors:
        raise Failure(f"{path} has no weights in it", "a state dict is saved by `torch.save(model.state_dict(), …)`")
    return with_masks_applied(tensors)


def _shrink_like(
    model: nn.Module, file: str | os.PathLike[str], there: Mapping[str, Tensor], new: Sequence[str]
) -> None:
    """Shrink a model to the shapes of the pruned one in a bundle."""
    path = Path(os.fspath(file))
    if not zipfile.is_zipfile(path):
        return
    manifest = _manifest(path)
    if "over" in manifest:
        raise Failure(f"{path} has adapters only, not the weights under them", "train it with `merge=true`")
    if "sizes" not in manifest:
        return
    try:
        shrink(model, manifest["sizes"], there, new)
    except (ValueError, TypeError, AttributeError) as problem:
        raise Failure(f"{path} has a pruned model, which does not fit this one: {problem}") from None


def _manifest(path: Path) -> dict[str, Any]:
    """What a bundle says about its model; nothing where it can't be read."""
    with zipfile.ZipFile(path) as archive:
        if BUNDLED_MANIFEST not in archive.namelist():
            return {}
        with archive.open(BUNDLED_MANIFEST) as stream:
            content = stream.read(_LARGEST_MANIFEST)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise Failure(f"{path} is damaged: {BUNDLED_MANIFEST} can't be read") from None
    return found if isinstance(found, dict) else {}


def _content(path: Path) -> Any:
    from safetensors.torch import load, load_file

    with path.open("rb") as stream:
        start = stream.read(9)
    if start[:2] == b"PK":
        with zipfile.ZipFile(path) as archive:
            if BUNDLED_WEIGHTS in archive.namelist():
                return load(_checked_weights(archive))
    elif path.suffix == ".safetensors" or start[8:9] == b"{":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def _checked_weights(archive: zipfile.ZipFile) -> bytes:
    """The weights of a bundle, if they have its checksum."""
    content = archive.read(BUNDLED_WEIGHTS)
    sums = json.loads(archive.read(BUNDLED_CHECKSUMS))
    if sha256(content).hexdigest() != sums[BUNDLED_WEIGHTS]:
        raise ValueError("the weights do not have their checksum")
    return content


def _unreadable(path: Path, problem: Exception) -> Failure:
    if isinstance(problem, OSError) and problem.strerror:
        return Failure(f"{path} can't be read: {problem.strerror}")
    _, is_refused, rest = str(problem).partition("GLOBAL ")
    if isinstance(problem, pickle.UnpicklingError) and is_refused:
        return Failure(
            f"{path} has more than weights in it ({rest.split()[0]}), so reading it could run code",
            "save the weights alone: `torch.save(model.state_dict(), …)`",
        )
    return Failure(f"{path} can't be read as weights", "it is something else, or damaged: download or save it again")


def _unwrapped(content: Any) -> dict[str, Tensor]:
    """The state dict itself, taken out of a checkpoint."""
    if not isinstance(content, Mapping):
        return {}
    for name in WRAPPINGS:
        inner = _unwrapped(content.get(name))
        if inner:
            return inner
    return {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}


# -- fitting


def _fitted(there: Mapping[str, Tensor], wanted: Mapping[str, Tensor], new: Sequence[str]) -> dict[str, Tensor]:
    """The entries, under the model's own names where removing the prefixes of wrappers gives one."""
    entries = {name: value for name, value in there.items() if name in wanted}
    for name, value in there.items():
        bare = _bare_name(name, wanted)
        fits = bare not in entries and (bare in wanted or is_under(bare, new))
        if name not in wanted:
            entries[bare if fits else name] = value
    return entries


def _bare_name(name: str, wanted: Mapping[str, Tensor]) -> str:
    name = name.replace("._orig_mod.", ".")
    while name not in wanted:
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            return name
        name = name.removeprefix(prefix)
    return name


def _shapes_of(name: str, value: Tensor, wanted: Tensor) -> str:
    return f"{name}: {_shape(value)} in the file, {_shape(wanted)} in the model"


def _shape(value: Tensor) -> str:
    return "×".join(map(str, value.shape)) or "a scalar"


def _misfit(source: str, missing: Sequence[str], unexpected: Sequence[str], misshapen: Sequence[str]) -> Failure:
    lines = [f"{source} does not fit the model"]
    for title, names in (
        ("missing from the file", missing),
        ("not in the model", unexpected),
        ("with another shape", misshapen),
    ):
        if names:
            lines.append(f"  {title} ({len(names)}):")
            lines += [f"    {name}" for name in names[:MOST_LISTED]]
            lines += ["    …"] if len(names) > MOST_LISTED else []
    return Failure("\n".join(lines))
