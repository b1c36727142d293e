"""What stored outputs depend on: weights, operations, transforms, images, libraries, and the machine."""

import enum
import functools
import inspect
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from PIL import features
from torch import Tensor, fx, nn

from leaven.runtime.model.state import LIBRARIES, digest, has_known_version, state_of, tensors_of

if TYPE_CHECKING:
    from leaven.runtime.data.loading import BatchReader

_CODECS = ("jpg", "libjpeg_turbo", "jpg_2000", "zlib", "libtiff", "webp", "avif")
_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class NotStored(Exception):
    """Why outputs are not computed once and kept, in words that follow "because"."""


def machine(device: torch.device) -> list[str]:
    """What decides the last digits of a sum: the libraries, the device, and how many threads share the work."""
    found = [f"{name} {_version(name)}" for name in LIBRARIES]
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    capability = torch.backends.cpu.get_cpu_capability()
    found.append(f"python {platform.python_version()}")
    return [*found, device.type, kind, capability, f"{torch.get_num_threads()} threads", str(_switches())]


def _switches() -> list[Any]:
    """Settings of torch that choose between ways to calculate."""
    cudnn = torch.backends.cudnn
    return [
        torch.backends.mkldnn.enabled,
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        *(cudnn.version(), cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
    ]


def decoders() -> list[str]:
    """What decides the pixels of an image: the libraries that decode and resize it."""
    libraries = [f"{name} {_version(name)}" for name in ("leaven", "torchvision", "pillow")]
    codecs = [f"{name} {features.version(name)}" for name in _CODECS]
    return [*libraries, *codecs, platform.machine()]


@functools.cache  # reading the metadata of a library takes milliseconds, and every split asks
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def of_samples(reader: "BatchReader", rows: slice = slice(None)) -> list[str]:
    """The content of the samples of a split, or of some rows of it, in their order."""
    refuse_own_dataset(reader)
    assert reader.dataset.digests is not None
    try:
        return [sample.hex() for sample in reader.dataset.digests(reader.indices[rows])]
    except OSError:
        raise NotStored("some files can't be read") from None


def refuse_own_dataset(reader: "BatchReader") -> None:
    if reader.dataset.digests is None or reader.dataset.values is None:
        raise NotStored("the images come from code of your own, which may give others each time")


def refuse_own_code(reader: "BatchReader") -> None:
    """Raise where samples come from the user's code, or go through it: it is not called just to look."""
    refuse_own_dataset(reader)
    of_transform(reader.transform)


def of_weights(state: Mapping[str, Any]) -> dict[str, str]:
    """The weights of a model."""
    return {name: digest(value) for name, value in state.items() if isinstance(value, Tensor)}


def of_part(part: fx.GraphModule) -> dict[str, Any]:
    """The operations, settings and weights of a part of a model."""
    modules = {
        str(node.target): repr(part.get_submodule(str(node.target)))
        for node in part.graph.nodes
        if node.op == "call_module"
    }
    settings = {name: state_of(part.get_submodule(name)) for name in modules}
    return {"code": part.code, "modules": modules, "settings": settings, "weights": of_weights(tensors_of(part))}


def of_model(model: nn.Module) -> dict[str, Any]:
    """The layers, settings and weights of a whole model."""
    return {"modules": repr(model), "settings": state_of(model), "weights": of_weights(tensors_of(model))}


# -- code that no version tells about


class OwnCode:
    """Notes which functions run that do not come from a library whose version is known.

    They may be anywhere: methods of a class, hooks, functions that were put in the place of a library's, or what these
    call. Functions that are not written in Python are not seen.
    """

    def __init__(self) -> None:
        self.found = ""  # the name of the first

    def noted(self, run: Callable[[], Any]) -> Any:
        """The result of a function."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            return run()
        finally:
            sys.setprofile(before)

    def _note(self, frame: Any, event: str, _: object) -> None:
        if event == "call" and not self.found and not has_known_version(frame.f_globals.get("__name__", "")):
            self.found = frame.f_code.co_qualname


def of_transform(transform: Any) -> Any:
    """A transform with all that it was given, as plain data; `NotStored` where that does not describe it."""
    if isinstance(transform, _PLAIN):
        return repr(transform)
    if isinstance(transform, enum.Enum):
        return str(transform)
    if isinstance(transform, Tensor):
        return digest(transform)
    if isinstance(transform, list | tuple | set | frozenset):
        found = [of_transform(each) for each in transform]
        return sorted(found, key=str) if isinstance(transform, set | frozenset) else found
    if isinstance(transform, Mapping):
        return {str(key): of_transform(value) for key, value in transform.items()}
    if inspect.isclass(transform) and has_known_version(transform.__module__):
        return f"{transform.__module__}.{transform.__qualname__}"
    kind = type(transform)
    if hasattr(transform, "identity") and kind.__module__.startswith("leaven."):  # a tokenizer
        return transform.identity()
    if isinstance(transform, nn.Module) and kind.__module__.partition(".")[0] in ("torch", "torchvision"):
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            **{k: of_transform(v) for k, v in vars(transform).items()},
        }
    name = getattr(transform, "__name__", kind.__qualname__)
    raise NotStored(f"`{name}` in the transforms is code of its own, which may change or draw random numbers")
