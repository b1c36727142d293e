"""`leaven.lab` itself imports nothing large: its names are imported when they are used."""

import subprocess
import sys

import leaven.lab


def test_the_lab_imports_neither_torch_nor_a_web_library() -> None:
    program = "import leaven.lab, sys; print([n for n in ('torch', 'PIL', 'fastapi', 'uvicorn') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "[]\n")


def test_its_names_are_listed_and_there() -> None:
    names = {"Inspector", "Journal", "attribute", "edit", "occlusion", "predictions", "smallest_flip", "vary"}
    names |= {"advice", "compare", "new_rows", "statistics", "training"}
    assert names <= set(dir(leaven.lab))
    assert all(callable(getattr(leaven.lab, name)) for name in names)
