"""Recipes with user code of odd kinds, drawn by a seed: state, hooks, in-place and lazily built layers, tied and
parametrised weights, teachers, transforms, losses and techniques; batch sizes and precisions that are measured.

Each seed is a recipe and its Python file. `python -m tests.odd.recipes 17` prints those of a seed.
"""

import random
import sys
from dataclasses import dataclass

START = """
import types

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from helper import scaled
"""

HELPER = "FACTOR = {factor}\n\n\ndef scaled(x):\n    return x * FACTOR\n"

LAYERS = {  # a layer of six channels; `limit` is an argument of the model's constructor
    "plain": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.norm = nn.BatchNorm2d(6)

    def forward(self, x):
        return self.norm(x)
""",
    "counter": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 0.5 if self.calls > 7 else x
""",
    "counter in a buffer": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return x * torch.where(self.calls > 7, 0.5, 1.0)
""",
    "counter as extra state": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.calls = 0

    def get_extra_state(self):
        return torch.tensor(self.calls)

    def set_extra_state(self, state):
        self.calls = int(state)

    def forward(self, x):
        self.calls += 1
        return x * (1 + 0.01 * self.calls)
""",
    "running float": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.mean = 0.0

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * float(x.detach().mean())
        return x - self.mean
""",
    "own generator": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x):
        return x + 0.1 * torch.randn(x.shape, generator=self.generator)
""",
    "list": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(len(x))
        return x * (1 + 0.01 * len(self.seen))
""",
    "random in training": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()

    def forward(self, x):
        return x + 0.1 * torch.rand_like(x) if self.training else x
""",
    "forward hook": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        self.conv.register_forward_hook(lambda module, inputs, output: output * (1 + limit))

    def forward(self, x):
        return self.conv(x)
""",
    "pre-hook": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.conv = nn.Conv2d(6, 6, 1)
        self.conv.register_forward_pre_hook(self.clamp)

    def clamp(self, module, inputs):
        return (inputs[0].clamp(-self.limit, self.limit),)

    def forward(self, x):
        return self.conv(x)
""",
    "backward hook": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        self.conv.register_full_backward_hook(self.halve)

    def halve(self, module, before, after):
        return tuple(None if gradient is None else gradient * 0.5 for gradient in before)

    def forward(self, x):
        return self.conv(x)
""",
    "hook of a parameter": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6, 1, 1))
        self.scale.register_hook(lambda gradient: gradient * 0.5)

    def forward(self, x):
        return x * self.scale
""",
    "hook after a gradient": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6, 1, 1))
        self.scale.register_post_accumulate_grad_hook(self.halve)

    @staticmethod
    def halve(parameter):
        parameter.grad.mul_(0.5)

    def forward(self, x):
        return x * self.scale
""",
    "counter in a namespace": """
STATE = types.SimpleNamespace(calls=0)


class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()

    def forward(self, x):
        STATE.calls += 1
        return x * (1 + 0.01 * STATE.calls)
""",
    "counter in a default": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()

    def forward(self, x, calls=[0]):
        calls[0] += 1
        return x * (1 + 0.01 * calls[0])
""",
    "counter of a function": """
def counted():
    counted.calls += 1
    return counted.calls


counted.calls = 0


class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()

    def forward(self, x):
        return x * (1 + 0.01 * counted())
""",
    "shared by its copies": """
class Shared:
    def __init__(self):
        self.calls = 0

    def __deepcopy__(self, memo):
        return self


class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.shared = Shared()

    def forward(self, x):
        self.shared.calls += 1
        return x * (1 + 0.01 * self.shared.calls)
""",
    "running mean that is not saved": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()), persistent=False)
        self.largest = torch.zeros(())

    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean())
            self.largest = torch.maximum(self.largest, x.detach().amax())
        return (x - self.mean) / (1 + self.largest)
""",
    "in-place relu": """
class Odd(nn.ReLU):
    def __init__(self, limit):
        super().__init__(inplace=True)
""",
    "in-place dropout": """
class Odd(nn.Dropout):
    def __init__(self, limit):
        super().__init__(limit, inplace=True)
""",
    "in-place sum": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        return x.mul_(1 + self.limit).add_(0.1)
""",
    "lazily built mask": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = (torch.arange(x.shape[-1]) % 2 == 0).to(x.dtype)
        return x * self.mask
""",
    "lazy layer": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = nn.LazyConv2d(6, 1)

    def forward(self, x):
        return self.conv(x)
""",
    "initialised by its first batch": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6, 1, 1))
        self.register_buffer("is_ready", torch.tensor(False))

    def forward(self, x):
        if not self.is_ready:
            with torch.no_grad():
                self.scale.copy_(1 / (x.std((0, 2, 3), keepdim=True)[0] + 0.1))
                self.is_ready.fill_(True)
        return x * self.scale
""",
    "initialised once, by a plain flag": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.register_buffer("shift", torch.zeros(6, 1, 1))
        self.is_ready = False

    def forward(self, x):
        if not self.is_ready:
            self.shift.copy_(x.detach().mean((0, 2, 3), keepdim=True)[0])
            self.is_ready = True
        return x - self.shift
""",
    "whole batch": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()

    def forward(self, x):
        return x / (x.detach().amax() + 1)
""",
    "plain attribute": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        return x.clamp(-self.limit, self.limit)
""",
    "tied weights": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.one, self.other = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.other(F.relu(self.one(x)))
""",
    "weight norm": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = parametrizations.weight_norm(nn.Conv2d(6, 6, 1))

    def forward(self, x):
        return self.conv(x)
""",
    "spectral norm": """
class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = parametrizations.spectral_norm(nn.Conv2d(6, 6, 1))

    def forward(self, x):
        return self.conv(x)
""",
    "own parametrization": """
class Bounded(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, weight):
        return torch.tanh(weight) * self.limit


class Odd(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        parametrize.register_parametrization(self.conv, "weight", Bounded(limit))

    def forward(self, x):
        return self.conv(x)
""",
}

NET = '''

class Net(nn.Module):
    """An odd layer among others: `place` says where."""

    def __init__(self, classes: int, limit: float = 0.2, place: str = "first"):
        super().__init__()
        self.place = place
        self.first, self.second = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.odd = Odd(limit)
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        x = scaled(self.first(x))
        if self.place == "first":
            x = self.odd(x)
        x = self.second(F.relu(x))
        if self.place == "second":
            x = self.odd(x)
        return self.head(F.relu(x).mean((2, 3)))


class Teacher(nn.Module):
    def __init__(self, classes: int, limit: float = 0.2):
        super().__init__()
        self.odd, self.limit = Odd(limit), limit
        self.conv, self.head = nn.Conv2d(1, 6, 3), nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.odd(scaled(self.conv(x))).clamp(-self.limit, 1).mean((2, 3))) * 5


def inverted(image, strength: float = 1.0):
    return image if strength == 0 else image.point(lambda value: int(255 - strength * value))


class Spotted:
    def __init__(self, share: float = 0.2):
        self.share = share

    def __call__(self, image):
        import random

        return image if random.random() > self.share else image.point(lambda value: value // 2)


def smooth(outputs, targets, weight: float = 0.1):
    return F.cross_entropy(outputs, targets) + weight * outputs.pow(2).mean()


class Margin(nn.Module):
    def __init__(self, weight: float = 0.1):
        super().__init__()
        self.weight, self.calls = weight, 0

    def forward(self, outputs, targets):
        return F.cross_entropy(outputs, targets, label_smoothing=self.weight)


class Ramp(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, outputs, targets):
        loss = F.cross_entropy(outputs, targets)
        self.mean.mul_(0.9).add_(0.1 * loss.detach())
        return loss / self.mean


class Noise:
    def __init__(self, strength: float = 0.1):
        self.strength, self.steps = strength, 0

    def on_batch(self, images, targets):
        return images + self.strength * torch.randn_like(images), targets

    def after_step(self, model):
        self.steps += 1
        self.strength *= 0.9

    def state_dict(self):
        return {"steps": self.steps, "strength": self.strength}

    def load_state_dict(self, state):
        self.steps, self.strength = state["steps"], state["strength"]


class Temperature:
    def __init__(self, criterion, start: float = 0.0):
        self.criterion, self.value = criterion, nn.Parameter(torch.tensor(start))

    def parameters(self):
        return [self.value]

    def on_loss(self, loss, images, outputs, targets):
        return self.criterion(outputs * self.value.exp(), targets)

    def state_dict(self):
        return {"value": self.value.detach().clone()}

    def load_state_dict(self, state):
        with torch.no_grad():
            self.value.copy_(state["value"])


class Deeper:
    def __init__(self, width: int = 5):
        self.width = width

    def on_model(self, model):
        outputs = model.head.out_features
        model.head = nn.Sequential(nn.Linear(6, self.width), nn.Tanh(), nn.Linear(self.width, outputs))


class Backwards(torch.utils.data.Sampler):
    def __init__(self, targets):
        self.targets = targets

    def __iter__(self):
        return iter(reversed(range(len(self.targets))))

    def __len__(self):
        return len(self.targets)


class Drawn(torch.utils.data.Dataset):
    classes = ("dark", "light", "striped")

    def __init__(self, count: int = 30):
        generator = torch.Generator().manual_seed(5)
        self.targets = [number % 3 for number in range(count)]
        self.images = torch.rand(count, 1, 8, 8, generator=generator)
        for number, target in enumerate(self.targets):
            self.images[number] *= 0.5
            if target == 1:
                self.images[number] += 0.5
            if target == 2:
                self.images[number, :, ::2] += 0.5

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.images[index], self.targets[index]
'''
SPLIT = "split train=26 samples, val=12 samples, test=10 samples"
DATA = (
    f"data digits() {{ {SPLIT} }}",
    f"data digits() {{ {SPLIT} }}",
    f"data digits() {{ {SPLIT}; eval mine.inverted(0.5) }}",
    f"data digits() {{ {SPLIT}; train mine.Spotted(share=0.4) -> to_tensor(); eval to_tensor() }}",
    "data mine.Drawn(count=36) { split train=24 samples, val=12 samples }",
)
SAMPLED = f"data digits() {{ {SPLIT}; sampler mine.Backwards() }}"
FREEZING = (
    "",
    "freeze all - head",
    "freeze all - head",
    "freeze first",
    "freeze first + second",
    "freeze all - last(1)",
)
TECHNIQUES = (
    "",
    "",
    "",
    "mixup 0.2",
    "ema 0.9",
    "swa start=1 epochs",
    "sam",
    "lora rank=2, on=second",
    'distill mine.Teacher(limit=limit, weights="teacher.pt"), weight=0.5',
    'distill mine.Teacher(limit=limit, weights="teacher.pt"), weight=0.5',
    "mine.Noise strength=0.2",
    "mine.Temperature",
    "mine.Deeper",
)
RATES = (0.02, 0.1)
LOSSES = (
    *("", "", "", "loss mine.smooth(weight=0.2)", "loss mine.Margin()", "loss mine.Ramp()"),
    "loss cross_entropy(label_smoothing=0.1)",
)


@dataclass(frozen=True)
class Odd:
    """A recipe and its Python file. Its `arg limit` is an argument of the constructors of model and teacher."""

    seed: int
    kind: str
    recipe: str
    code: str

    @property
    def is_measured(self) -> bool:
        return "=auto" in self.recipe

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.kind})\n--- recipe.leaven\n{self.recipe}\n--- mine.py\n{self.code}"


def made(seed: int) -> Odd:
    """The recipe of a seed."""
    rng = random.Random(seed)
    kinds = list(LAYERS)
    kind = kinds[seed % len(kinds)]
    data = rng.choice(DATA) if seed % 29 else SAMPLED
    place = rng.choice(("first", "second"))
    freezing, technique, loss = rng.choice(FREEZING), rng.choice(TECHNIQUES), rng.choice(LOSSES)
    if technique.startswith("mine.Deeper") and "head" in freezing:
        freezing = "freeze first"
    if technique.startswith("distill") and kind == "lazy layer":
        technique = ""
    if technique == "mine.Temperature" and loss:
        loss = ""
    optimizer = rng.choice(("sgd(lr=lr, momentum=0.9)", "adamw(lr=lr)", "sgd(lr=lr)"))
    precision = rng.choice(("32", "32", "32", '"bf16"'))
    phases = [f'phase "one", epochs=2 {{ {"; ".join(filter(None, [freezing, technique]))} }}']
    if rng.random() < 0.35:
        second = rng.choice(FREEZING)
        phases.append(f'phase "two", epochs={rng.choice((1, 2))} {{ {second} }}')
    else:
        phases = [line for line in (freezing, technique) if line]
    epochs = "" if any(line.startswith("phase") for line in phases) else f"epochs={rng.choice((2, 3))}, "
    size = str(rng.choice((4, 8, 8, 13)))
    if epochs and rng.random() < 0.3:
        size, precision = rng.choice((("auto", precision), (size, "auto"), ("auto", "auto")))
    lines = [
        'import "mine.py" as mine',
        "arg lr: float = 0.05",
        "arg limit: float = 0.2",
        f'model mine.Net(limit=limit, place="{place}")',
        data,
        *phases,
        *([loss] if loss else []),
        f"optimizer {optimizer}",
        f"train {epochs}batch={size}, precision={precision}, seed={rng.randrange(5)}",
        f"sweep lr, [{', '.join(map(str, RATES))}]",
    ]
    return Odd(seed, kind, "\n".join(lines) + "\n", f"{START}{LAYERS[kind]}{NET}".lstrip())


if __name__ == "__main__":
    print(made(int(sys.argv[1])))
