"""What a program imports, and the names that it then uses."""

import sys

from leaven.program.code import WIDTH

_AS = {  # modules that are imported under a short name
    "torch.nn": ("from torch import nn", "nn"),
    "torchvision.transforms.v2": ("from torchvision.transforms import v2 as T", "T"),
    "leaven.runtime": ("from leaven import runtime", "runtime"),
    "leaven.techniques": ("from leaven import techniques", "techniques"),
    "leaven.bundle": ("from leaven import bundle", "bundle"),
}
_TASKS = "leaven.tasks."
_WHOLE = {  # used by their full names
    "torch": "torch",
    "torch.optim": "torch",
    "torch.optim.lr_scheduler": "torch",
    "torchvision.models": "torchvision",
    "torchvision.models.segmentation": "torchvision",
    "torchvision.models.detection": "torchvision",
    "torchvision.datasets": "torchvision",
    "timm": "timm",
    "timm.optim": "timm.optim",
    "timm.loss": "timm.loss",
}


class Imports:
    """The imports of one program, collected while it is written."""

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def add(self, line: str) -> None:
        self._lines.add(line)

    def use(self, target: str) -> str:
        """The name of something in the program, which imports it."""
        module, _, name = target.rpartition(".")
        if module in _AS:
            line, short = _AS[module]
            self.add(line)
            return f"{short}.{name}"
        if not module:
            return name  # Python's own
        if module.startswith(_TASKS):
            self.add(f"from leaven.tasks import {module.removeprefix(_TASKS)} as task")
            return f"task.{name}"
        if module in _WHOLE:
            self.add(f"import {_WHOLE[module]}")
            return target
        self.add(f"from {module} import {name}")
        return name

    def lines(self) -> list[str]:
        """Sorted as formatters do: standard library, third parties, Leaven."""
        sections: list[list[str]] = [[], [], []]
        for line in self._lines:
            package = line.split()[1].partition(".")[0]
            sections[0 if is_pythons(package) else 2 if package == "leaven" else 1].append(line)
        found: list[str] = []
        for section in sections:
            if section and found:
                found.append("")
            found += sorted(_joined(section), key=_order)
        return found


def is_pythons(package: str) -> bool:
    """Whether a package comes with Python."""
    return package in sys.stdlib_module_names


def _order(line: str) -> tuple[bool, str, bool]:
    """Whole modules first; of one module, names under another name last."""
    return line.startswith("from"), line.split()[1].lower(), " as " in line


def _joined(lines: list[str]) -> list[str]:
    """One line per module."""
    plain = [line for line in lines if line.startswith("import") or " as " in line]
    names: dict[str, list[str]] = {}
    for line in lines:
        if line not in plain:
            _, module, _, name = line.split()
            names.setdefault(module, []).append(name)
    return plain + [_from(module, sorted(set(found), key=_kind)) for module, found in names.items()]


def _from(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _kind(name: str) -> tuple[int, str]:
    """Constants come first, then classes, then the rest."""
    return 0 if len(name) > 1 and name.isupper() else 1 if name[0].isupper() else 2, name.lower()
