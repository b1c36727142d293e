"""A look at a model is noticed by nobody: what its code keeps outside of it is put back, or there is no look."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from leaven.runtime import import_file
from leaven.runtime.model.looking import NotCopied, copy_to_look_at, looking_at
from leaven.runtime.model.outside import outside_state
from leaven.runtime.user_code import user_folders

CODE = """
import contextvars, functools, itertools, threading, types, weakref
import torch
from torch import nn
{outside}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x{default}):
        return x * ({count})
"""
MAKE = """
def make():
    calls = 0
    def count():
        nonlocal calls
        calls += 1
        return calls
    return count
count = make()
"""
LOCAL = """
def kind():
    class Kind:
        calls = 0
        @classmethod
        def count(cls):
            cls.calls += 1
            return cls.calls
    return Kind
"""
PUT_BACK = {  # what is outside, what a model has, and how it counts its calls
    "a namespace": ("S = types.SimpleNamespace(calls=0)", "pass", "S.__dict__.update(calls=S.calls + 1) or S.calls"),
    "an iterator": ("C = itertools.count(1)", "pass", "next(C)"),
    "a function's attribute": (
        "def count():\n    count.calls += 1\n    return count.calls\ncount.calls = 0",
        "pass",
        "count()",
    ),
    "a function's variable": (MAKE, "pass", "count()"),
    "a function behind another": (
        f"{MAKE}\n@functools.wraps(count)\ndef more():\n    return count()",
        "pass",
        "more()",
    ),
    "a layer": ("BN = nn.BatchNorm1d(1)", "pass", "BN(x).sum() * 0 + BN.num_batches_tracked"),
    "a class made by a function": (LOCAL, "self.kind = kind()", "self.kind.count()"),
    "a module of a package": ("from counters.deep import more", "pass", "more()"),
}
NOT_COPIED = {
    "an object that is its own copy": (
        "class S:\n    calls = 0\n    def __deepcopy__(self, memo):\n        return self",
        "self.s = S(); self.s.calls = 0",
        "its copy shares s with it",
    ),
    "a weak reference": (
        "class S:\n    calls = 0",
        "self.s = S(); self.weak = weakref.ref(self.s)",
        "its copy shares weak with it",
    ),
    "a generator outside": ("G = (n for n in range(100))", "pass", "can't be copied"),
    "a variable of each thread": ("T = threading.local()", "pass", "can't be copied"),
    "a scripted layer": (
        "",
        "self.scripted = torch.jit.script(nn.Linear(1, 1))",
        "the weights of its copy can't be trained",
    ),
    "a variable of each context": ("V = contextvars.ContextVar('V', default=0)", "pass", "can't be copied"),
}


@pytest.fixture(autouse=True)
def _user_code(tmp_path: Path) -> Iterator[None]:
    before = set(user_folders), list(sys.path), set(sys.modules)
    (tmp_path / "counters").mkdir()
    (tmp_path / "counters" / "__init__.py").touch()
    (tmp_path / "counters" / "deep.py").write_text("N = 0\ndef more():\n    global N\n    N += 1\n    return N\n")
    yield
    user_folders.clear()
    user_folders.update(before[0])
    sys.path[:] = before[1]
    for name in sys.modules.keys() - before[2]:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def made(folder: Path, outside: str, init: str, count: str = "1", default: str = "") -> nn.Module:
    file = folder / "looked_at.py"
    file.write_text(CODE.format(outside=outside, init=init, count=count, default=default))
    model: nn.Module = import_file(str(file), "looked_at").Net()
    return model


def assert_put_back(model: nn.Module) -> None:
    image = torch.ones(2, 1)
    model(image)
    before = outside_state(model)
    with looking_at(model) as copied:
        for _ in range(3):
            copied(image)
        assert outside_state(model) != before, "it is seen"
    assert outside_state(model) == before
    assert float(model(image).sum()) == 4


@pytest.mark.parametrize("kind", PUT_BACK)
def test_what_a_look_changes_outside_is_put_back(kind: str, tmp_path: Path) -> None:
    assert_put_back(made(tmp_path, *PUT_BACK[kind]))


@pytest.mark.parametrize("default", [", calls=[0]", ", *, calls=[0]"])
def test_what_a_look_changes_in_a_default_is_put_back(default: str, tmp_path: Path) -> None:
    assert_put_back(made(tmp_path, "", "pass", "calls.append(1) or len(calls) - 1", default))


@pytest.mark.parametrize("kind", NOT_COPIED)
def test_where_nothing_can_be_put_back_there_is_no_look(kind: str, tmp_path: Path) -> None:
    outside, init, reason = NOT_COPIED[kind]
    model = made(tmp_path, outside, init)
    with pytest.raises(NotCopied, match=reason), looking_at(model):
        pass


def test_layers_of_libraries_are_copied() -> None:
    encoder = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    for layer in (nn.LSTM(3, 4), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), encoder):
        copy_to_look_at(layer)
