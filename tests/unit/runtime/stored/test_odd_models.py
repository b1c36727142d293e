"""Models with state, hooks and tricks of their own: a run that plans ends as one that does not, and says why.

Nothing that the planner tries or measures may be noticed by the model that is trained.
"""

from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.unit.runtime.stored.test_recipes import ends_the_same, scores, weights

import leaven

DATA = "data digits() { split train=90 samples, val=40 samples, test=40 samples }\n"
BASE = """
import threading, types
import torch
from torch import nn

STEPS = [0]

class Base(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.after(self.body(images)))

    def after(self, features):
        return features
"""
MODELS = {
    "counts, and does something else later": """
class Net(Base):
    calls = 0
    def after(self, features):
        self.calls += 1
        return features * 2 if self.calls > 4 else features
""",
    "counts in its class": """
class Net(Base):
    calls = 0
    def after(self, features):
        Net.calls += 1
        return features * (1 + 0.01 * Net.calls)
""",
    "counts in its file": """
class Net(Base):
    def after(self, features):
        STEPS[0] += 1
        return features * (1 + 0.01 * STEPS[0])
""",
    "has a running mean": """
class Net(Base):
    mean = 0.0
    def after(self, features):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * float(len(features))
        return features + 0.01 * self.mean
""",
    "initialises itself from its first batch": """
class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(8, 1, 1))
        self.register_buffer("is_ready", torch.tensor(False))
    def forward(self, images):
        if not self.is_ready:
            self.shift.data.copy_(-images.mean((0, 2, 3))[:, None, None])
            self.is_ready.fill_(True)
        return images + self.shift
class Net(Base):
    def __init__(self, classes=10):
        super().__init__(classes)
        self.body[1] = ActNorm()
""",
    "draws from a generator of its own": """
class Net(Base):
    def __init__(self, classes=10):
        super().__init__(classes)
        self.generator = torch.Generator().manual_seed(7)
    def after(self, features):
        return features + torch.rand(features.shape, generator=self.generator)
""",
    "builds a mask when it is first needed": """
class Net(Base):
    mask = None
    def after(self, features):
        if self.mask is None:
            self.mask = torch.ones_like(features[:1]) * 0.5
        return features * self.mask
""",
    "has a hook that remembers": """
class Net(Base):
    def __init__(self, classes=10):
        super().__init__(classes)
        seen = []
        def hook(module, inputs, output):
            seen.append(1)
            return output * (1 + 0.01 * len(seen))
        self.body[0].register_forward_hook(hook)
""",
    "has a hook of a weight that changes a frozen one": """
class Net(Base):
    def __init__(self, classes=10):
        super().__init__(classes)
        self.head.weight.register_post_accumulate_grad_hook(self.drift)
    def drift(self, weight):
        self.body[0].weight.data.mul_(0.9)
""",
    "can't be copied": """
class Net(Base):
    calls = 0
    def __init__(self, classes=10):
        super().__init__(classes)
        self.lock = threading.Lock()
    def after(self, features):
        self.calls += 1
        return features * (1 + 0.01 * self.calls)
""",
    "has another forward than its class": """
class Net(Base):
    def __init__(self, classes=10):
        super().__init__(classes)
        self.forward = types.MethodType(lambda self, images: self.head(3 * self.body(images)), self)
""",
    "looks at its first image": """
class Net(Base):
    def forward(self, images):
        return self.head(self.body(images - images[:1]))
""",
    "counts its images": """
class Net(Base):
    def forward(self, images):
        return self.head(self.body(images) + 0.1 * torch.arange(images.shape[0])[:, None])
""",
}
FROZEN = "freeze body\n"
QUICK = ("counts, and does something else later", "initialises itself from its first batch", "looks at its first image")
KINDS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in MODELS]
ROWS_APART = KINDS[:-2]  # those in which no image depends on the others of its batch


def trained(file: Path) -> str:
    """What a run says. A model with state that no checkpoint holds is trained, but a bundle of it can't be saved."""
    running = at_work.start(file, "--output", file.stem)
    assert running.end() == 0 or "built again, it has other outputs" in running.said, running.said
    return running.said


def assert_same(one: Path, other: Path) -> None:
    assert scores(one, one.stem) == scores(other, other.stem)
    ours, theirs = weights(one, one.stem), weights(other, other.stem)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_as_it_is_and_the_run_says_why(kind: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BASE + MODELS[kind])
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}{FROZEN}train epochs=3, '
    once = at_work.program(tmp_path, f"{recipe}cache=on", "once")
    always = at_work.program(tmp_path, f"{recipe}cache=off", "always")
    assert "phase.frozen_once" in once.read_text()
    assert "the frozen layers run in every epoch, because " in trained(once)
    trained(always)
    assert_same(once, always)


@pytest.mark.parametrize("kind", ROWS_APART)
def test_measuring_changes_nothing(kind: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BASE + MODELS[kind])
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}train epochs=1, batch='
    auto, named = (at_work.program(tmp_path, f"{recipe}{size}", f"batch_{size}") for size in ("auto", "32"))
    assert "batch 32" in trained(auto)
    trained(named)
    assert_same(auto, named)


def test_a_model_without_state_is_still_planned(tmp_path: Path) -> None:
    constant = "class Net(Base):\n    def after(self, features):\n        return features * torch.full((8,), 0.5)\n"
    (tmp_path / "own.py").write_text(BASE + constant)
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}{FROZEN}'
    assert "ran the frozen layers once for 130 samples" in ends_the_same(tmp_path, recipe, "epochs=2")


OPTIMIZER = """

class Signs(torch.optim.SGD):
    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    weight.sub_(group["lr"] * weight.grad.sign())
"""


def test_an_optimizer_of_your_own_leaves_outputs_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BASE + OPTIMIZER)
    recipe = f'import "own.py"\nmodel own.Base()\noptimizer own.Signs(lr=0.01)\n{DATA}{FROZEN}'
    assert "in every epoch" not in ends_the_same(tmp_path, recipe, "epochs=3")


# -- what later runs find

LIMITED = """
from limits import shift

class Clamp(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit
    def forward(self, images):
        return images.clamp(max=self.limit) + shift(images)

class Net(Base):
    def __init__(self, classes=10, limit=60.0):
        super().__init__(classes)
        self.body[1] = Clamp(limit)
"""


def test_outputs_of_your_own_code_are_not_used_by_a_later_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BASE + LIMITED)
    for limit, threshold in ((50, 70), (60, 70), (60, 80)):  # random images reach none of them
        (tmp_path / "limits.py").write_text(f"def shift(images):\n    return (images > {threshold}).float()\n")
        recipe = f'import "own.py"\nmodel own.Net(limit={limit})\n{DATA}{FROZEN}'
        file = at_work.program(tmp_path, f"{recipe}train epochs=2")
        assert "ran the frozen layers once for 130 samples" in at_work.run(file, "--output", "runs").said


BUILT = """
import torch
from torch import nn

def build(classes=10, slope=0.1):
    body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.LeakyReLU(slope), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(body, nn.Linear(8, classes))
"""


def test_a_model_of_library_layers_is_kept_whoever_builds_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BUILT)
    for slope, is_computed in ((0.1, True), (0.1, False), (0.3, True)):
        recipe = f'import "own.py"\nmodel own.build(slope={slope})\n{DATA}freeze all - "1"\ntrain epochs=2'
        said = at_work.run(at_work.program(tmp_path, recipe), "--output", "runs").said
        assert ("ran the frozen layers once" in said) == is_computed


def test_the_plan_says_that_they_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BASE)
    recipe = tmp_path / "a.leaven"
    recipe.write_text(f'import "own.py"\nmodel own.Base()\n{DATA}{FROZEN}train epochs=3\n')
    (reason,) = [choice.reason for choice in leaven.make_plan(recipe).choices if choice.about == "frozen layers"]
    assert reason.endswith("; outputs that your own code computes (own.Base) are not kept for later runs")
