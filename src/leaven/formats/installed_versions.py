"""Which versions of the libraries that decide the result of a run are installed."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("torch", "torchvision", "timm", "lightning", "torchmetrics", "numpy", "pillow", "leaven")


def installed_versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The versions by package; what is not installed is left out."""
    return {name: found for name in packages if (found := _version(name))}


def leaven_version() -> str:
    return _version("leaven") or ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
