"""`leaven.lab` itself imports nothing large: its names are imported when they are used."""

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import leaven.lab


def test_the_lab_imports_neither_torch_nor_a_web_library() -> None:
    program = "import leaven.lab, sys; print([n for n in ('torch', 'PIL', 'fastapi', 'uvicorn') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "[]\n")


def test_its_names_are_listed_and_there() -> None:
    names = {"Inspector", "Journal", "attribute", "edit", "occlusion", "predictions", "smallest_flip", "vary"}
    names |= {"advice", "compare", "new_rows", "statistics", "trace", "training"}
    assert names <= set(dir(leaven.lab))
    assert all(callable(getattr(leaven.lab, name)) for name in names)


def test_no_value_puts_nan_into_json() -> None:
    modules = [import_module(each.name) for each in pkgutil.walk_packages(leaven.lab.__path__, "leaven.lab.")]
    classes = {one for module in modules for one in vars(module).values() if inspect.isclass(one)}
    own = {one for one in classes if one.__module__.startswith("leaven.lab.") and "to_json" in vars(one)}
    assert len(own) > 20
    assert [one for one in own if not hasattr(vars(one)["to_json"], "__wrapped__")] == []
