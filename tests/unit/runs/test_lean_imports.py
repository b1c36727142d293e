"""Programs import of Lightning and torchmetrics what they use, and everything else is still there."""

import subprocess
import sys

import pytest

LEAN = """
import sys
from leaven.runs import lean_imports
lean_imports.install()
"""


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_metrics_and_fabric_import_nothing_that_is_not_used() -> None:
    code = """
import torch
from torchmetrics import Accuracy
from lightning.fabric import Fabric
heavy = ("matplotlib", "scipy", "transformers", "lightning.pytorch")
print([name for name in heavy if name in sys.modules])
accuracy = Accuracy(task="multiclass", num_classes=3)
accuracy.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
print(f"{accuracy.compute():.3f}", hasattr(Fabric(accelerator="cpu"), "backward"))

import lightning, torchmetrics
print(hasattr(torchmetrics, "no_such_metric"), "scipy" in sys.modules, type(lightning.__version__).__name__)
figure, _ = accuracy.plot()
print(type(figure).__name__)
"""
    assert printed(LEAN + code) == ["[]", "0.667 True", "False False str", "Figure"]


@pytest.mark.slow
def test_every_public_name_is_what_it_is_otherwise() -> None:
    code = """
def names():
    import lightning, torchmetrics, torchmetrics.functional
    packages = (lightning, torchmetrics, torchmetrics.functional)
    return {
        f"{package.__name__}.{name}": (getattr(found, "__module__", None), getattr(found, "__qualname__", str(found)))
        for package in packages for name in package.__all__ for found in (getattr(package, name),)
    }

lean = names()
sys.meta_path.pop(0)
for name in [name for name in sys.modules if name.partition(".")[0] in ("lightning", "torchmetrics")]:
    del sys.modules[name]
print(len(lean) > 200, [name for name, found in names().items() if lean[name] != found])
"""
    assert printed(LEAN + code) == ["True []"]


def test_a_package_that_is_not_as_expected_is_imported_as_usual(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Here, the name comes from a module that can only be imported after another one."""
    package = tmp_path / "torchmetrics"
    package.mkdir()
    (package / "__init__.py").write_text("from torchmetrics.first import one\nfrom torchmetrics.second import two\n")
    (package / "utilities.py").write_text("")
    (package / "first.py").write_text("import torchmetrics\none = torchmetrics.started = 1\n")
    (package / "second.py").write_text("from torchmetrics import started\ntwo = started + 1\n")
    code = f"sys.path.insert(0, {str(tmp_path)!r})\nfrom torchmetrics import two, one\nprint(one, two)"
    assert printed(LEAN + code) == ["1 2"]
