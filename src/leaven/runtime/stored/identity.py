"""What stored outputs depend on: weights, operations, transforms, images, libraries, and the machine."""

import enum
import hashlib
import inspect
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import features
from torch import Tensor, fx, nn

if TYPE_CHECKING:
    from leaven.runtime.data.loading import BatchReader

_LIBRARIES = ("leaven", "torch", "torchvision", "timm", "transformers", "peft", "numpy", "pillow")
_CODECS = ("jpg", "libjpeg_turbo", "jpg_2000", "zlib", "libtiff", "webp", "avif")
_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class NotStored(Exception):
    """Why outputs are not computed once and kept, in words that follow "because"."""


def digest(tensor: Tensor) -> str:
    """A digest of the values of a tensor."""
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    facts = f"{tensor.dtype} {tuple(tensor.shape)}"
    return hashlib.blake2b(raw.data, digest_size=20, person=facts.encode()[:16]).hexdigest() + facts


def machine(device: torch.device) -> list[str]:
    """What decides the last digits of a sum: the libraries, the device, and how many threads share the work."""
    found = [f"{name} {_version(name)}" for name in _LIBRARIES]
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    capability = torch.backends.cpu.get_cpu_capability()
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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def of_samples(reader: "BatchReader", rows: slice = slice(None)) -> list[str]:
    """The content of the samples of a split, or of some rows of it, in their order."""
    if reader.dataset.digests is None or reader.dataset.values is None:
        raise NotStored("the images come from code of your own, which may give others each time")
    try:
        return [sample.hex() for sample in reader.dataset.digests(reader.indices[rows])]
    except OSError:
        raise NotStored("some files can't be read") from None


def of_weights(state: Mapping[str, Any]) -> dict[str, str]:
    """The weights of a model."""
    return {name: digest(value) for name, value in state.items() if isinstance(value, Tensor)}


def of_part(part: fx.GraphModule) -> dict[str, Any]:
    """The operations and weights of a part of a model."""
    modules = {
        str(node.target): repr(part.get_submodule(str(node.target)))
        for node in part.graph.nodes
        if node.op == "call_module"
    }
    state = {**dict(part.named_parameters()), **dict(part.named_buffers())}
    return {"code": part.code, "modules": modules, "weights": of_weights(state), "sources": of_sources(part)}


def of_sources(model: nn.Module) -> dict[str, str]:
    """The files of all classes in a model that do not come from a library whose version is known."""
    classes = {type(module) for module in model.modules() if not isinstance(module, fx.GraphModule)}
    own = {each for each in classes if each.__module__.partition(".")[0] not in _LIBRARIES}
    return {f"{each.__module__}.{each.__qualname__}": _source_digest(each) for each in own}


def _source_digest(of_class: type) -> str:
    try:
        file = inspect.getsourcefile(of_class)
        content = Path(file).read_bytes() if file is not None else None
    except (TypeError, OSError):
        content = None
    if content is None:
        raise NotStored(f"the code of {of_class.__qualname__} can't be read")
    return hashlib.blake2b(content, digest_size=20).hexdigest()


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
    if inspect.isclass(transform):
        return f"{transform.__module__}.{transform.__qualname__}"
    kind = type(transform)
    if hasattr(transform, "identity"):  # a tokenizer
        return transform.identity()
    if isinstance(transform, nn.Module) and kind.__module__.partition(".")[0] in ("torch", "torchvision"):
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            **{k: of_transform(v) for k, v in vars(transform).items()},
        }
    name = getattr(transform, "__name__", kind.__qualname__)
    raise NotStored(f"`{name}` in the transforms is code of its own, which may change or draw random numbers")
