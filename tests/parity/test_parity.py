"""A generated program and a hand-written PyTorch loop end with the same weights, byte for byte.

The loops are plain PyTorch. They only take their batches from Leaven, so that both see the same items in the same
order, and seed_all chance as the programs do, so that both drop the same units.
"""

import math
import runpy
import signal
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import timm
import torch
from tests.parity.nets import Tiny, smooth
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.transforms import v2 as T

import leaven
from leaven import runtime
from leaven.language.source import Source
from leaven.runtime.seeding import seed_all

FILE = Path(__file__).with_name("nets.py")
MODEL = "model conv(6) -> dropout(0.2) -> conv(8, stride=2) -> global_pool() -> linear(classes)\n"
DATA = "data digits() { split train=200 samples, val=60 samples }\n"
Weights = dict[str, Tensor]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder to run in; threads and signals are afterwards as they were."""
    threads, handlers = torch.get_num_threads(), {each: signal.getsignal(each) for each in (2, 15)}
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    yield
    torch.set_num_threads(threads)
    for each, handler in handlers.items():
        signal.signal(each, handler)


def run_program(recipe: str, monkeypatch: pytest.MonkeyPatch, part: str = "model") -> Weights:
    """The last weights of the program that a recipe compiles to."""
    Path("program.py").write_text(leaven.generate(Source("recipe.leaven", recipe)), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["program.py"])
    runpy.run_path("program.py", run_name="__main__")
    (checkpoint,) = Path("runs").glob("*/*/last.ckpt")
    weights: Weights = torch.load(checkpoint, weights_only=True)["state"][part]
    return weights


def assert_same(module: nn.Module, weights: Weights) -> None:
    """The same numbers in the same order; components call them otherwise than plain layers do."""
    state = module.state_dict()
    assert len(state) == len(weights)
    for name, mine, theirs in zip(state, state.values(), weights.values(), strict=True):
        assert mine.dtype == theirs.dtype, name
        assert torch.equal(mine, theirs), name


# -- what the loops share


def digits(batch: int = 32) -> runtime.Data:
    """The data of all these recipes, and the seed from which their models are drawn."""
    seed_all(0)
    transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.digits()
    split = runtime.split(dataset, train=runtime.Count(200), val=runtime.Count(60), seed=0, resplit=True)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=batch, seed=0)


def batches(data: runtime.Data, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    for number, batch in enumerate(data.train.batches(epoch)):
        seed_all(0, epoch, number, 0)
        yield batch


def set_rate(optimizer: torch.optim.Optimizer, rates: list[float], share: float) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * share


def cosine(step: int, steps: int, warmup: int) -> float:
    """Which share of its full rate a step has: first a climb, then half a cosine."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


# -- a recipe each. `Tiny` in nets.py is, in plain layers, the model of most


def test_a_frozen_body(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = run_program(MODEL + DATA + "freeze all - head\nschedule constant()\ntrain epochs=3\n", monkeypatch)

    data = digits()
    model = Tiny(10)
    begin = deepcopy(model.body.state_dict())
    model.body.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.fc.parameters(), lr=1e-3)
    for epoch in range(3):
        keep_still(model)
        for images, labels in batches(data, epoch):
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert_same(model, weights)
    assert all(torch.equal(*pair) for pair in zip(begin.values(), weights.values(), strict=False))


def keep_still(model: Tiny) -> None:
    """Layers with frozen weights keep their statistics too; dropout, which has none, goes with the whole model."""
    model.train()
    for layer in model.body:
        layer.train(isinstance(layer, nn.Dropout))


def test_all_of_a_trained_net(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(timm.create_model("mobilenetv3_small_050", in_chans=1).state_dict(), "small.pth")
    model_line = 'model mobilenetv3_small_050(in_chans=1, weights="small.pth")\n'
    data_line = (
        "data digits() { split train=200 samples, val=60 samples; eval to_tensor() -> normalize([0.0], [1.0]) }\n"
    )
    weights = run_program(model_line + data_line + "train epochs=2\n", monkeypatch)

    data = digits()
    model = timm.create_model("mobilenetv3_small_050", in_chans=1)
    model.load_state_dict(torch.load("small.pth", weights_only=True))
    model.classifier = nn.Linear(model.classifier.in_features, 10)
    norms = [
        module for module in model.modules() if isinstance(module, nn.BatchNorm2d)
    ]  # frozen, as there is little data
    for norm in norms:
        norm.requires_grad_(False)
    body = [p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("classifier")]
    optimizer = torch.optim.AdamW([{"params": body}, {"params": model.classifier.parameters()}])
    steps, step = 2 * 7, 0
    for epoch in range(2):
        model.train()
        for norm in norms:
            norm.eval()
        for images, labels in batches(data, epoch):
            set_rate(optimizer, [3e-4, 3e-3], cosine(step, steps, warmup=round(0.05 * steps)))
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1

    assert_same(model, weights)


def test_from_scratch_with_mixed_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
        optimizer sgd(lr=0.1, momentum=0.9)
        schedule step(every=1 epoch, factor=0.5)
        mixup 0.3
        train epochs=3
    """
    weights = run_program(MODEL + DATA + recipe, monkeypatch)

    data = digits()
    model = Tiny(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    mixup = T.MixUp(alpha=0.3, num_classes=10)
    for epoch in range(3):
        set_rate(optimizer, [0.1], 0.5**epoch)
        model.train()
        for batch in batches(data, epoch):
            images, shares = mixup(*batch)
            F.cross_entropy(model(images), shares).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert_same(model, weights)


def test_a_model_a_loss_and_a_step_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nets.py").write_bytes(FILE.read_bytes())
    recipe = """
        import "nets.py" as mine
        model mine.Tiny()
        loss mine.smooth(share=0.2)
        optimizer rmsprop(lr=1e-3)
        schedule torch.ExponentialLR(gamma=0.5)
        override train_step, mine.train_step
        train epochs=2
    """
    weights = run_program(recipe + DATA, monkeypatch)

    data = digits()
    model = Tiny(10)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    for epoch in range(2):
        model.train()
        for images, labels in batches(data, epoch):
            loss = smooth(model(images), labels, 0.2) + 0.5 * smooth(model(images.flip(3)), labels, 0.2)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()

    assert_same(model, weights)


def test_accumulated_and_clipped_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
        optimizer sgd(lr=0.05, momentum=0.9, nesterov=true)
        schedule constant(warmup=3 steps)
        train epochs=2, batch=16, accumulate=4, clip=0.5
    """
    weights = run_program(MODEL + DATA + recipe, monkeypatch)

    data = digits(batch=16)
    model = Tiny(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    step, last = 0, 12  # 200 samples make 13 batches, of which the last is a step of its own
    for epoch in range(2):
        model.train()
        for number, (images, labels) in enumerate(batches(data, epoch)):
            (F.cross_entropy(model(images), labels) / (1 if number == last else 4)).backward()
            if number % 4 == 3 or number == last:
                set_rate(optimizer, [0.05], min(1.0, (step + 1) / 4))
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
                step += 1

    assert step == 8
    assert_same(model, weights)


def test_a_rate_that_falls_on_plateaus(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
        optimizer sgd(lr=0.5)
        schedule plateau(val.loss, factor=0.3, patience=0 epochs)
        train epochs=6
    """
    weights = run_program(MODEL + DATA + recipe, monkeypatch)

    data = digits()
    model = Tiny(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    schedule = ReduceLROnPlateau(optimizer, factor=0.3, patience=0)
    for epoch in range(6):
        model.train()
        for images, labels in batches(data, epoch):
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            losses = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in data.val.batches(0)]
        schedule.step(sum(losses) / 60)

    assert optimizer.param_groups[0]["lr"] < 0.5, "there was no plateau"
    assert_same(model, weights)


def test_groups_with_warmup_and_smoothed_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
        loss cross_entropy(label_smoothing=0.1)
        optimizer adamw(lr=1e-3, weight_decay=0.1) {
            group norms + biases, weight_decay=0.0
            group head, lr=1e-2
        }
        schedule cosine(warmup=1 epoch)
        train epochs=3
    """
    weights = run_program(MODEL + DATA + recipe, monkeypatch)

    data = digits()
    model = Tiny(10)
    plain = [parameter for parameter in model.body.parameters() if parameter.dim() > 1]
    small = [parameter for parameter in model.body.parameters() if parameter.dim() == 1]
    head = list(model.fc.parameters())  # the later group has what both choose
    groups = [{"params": plain}, {"params": small, "weight_decay": 0.0}, {"params": head, "lr": 1e-2}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    step = 0
    for epoch in range(3):
        model.train()
        for images, labels in batches(data, epoch):
            set_rate(optimizer, [1e-3, 1e-3, 1e-2], cosine(step, steps=21, warmup=7))
            criterion(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1

    assert_same(model, weights)


def test_averaged_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = "optimizer adam(lr=1e-2)\nschedule constant()\nema 0.8\ntrain epochs=3\n"
    weights = run_program(MODEL + DATA + recipe, monkeypatch, part="ema")

    data = digits()
    model = Tiny(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
    for epoch in range(3):
        model.train()
        for images, labels in batches(data, epoch):
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            averaged.update_parameters(model)

    assert_same(averaged, weights)


def test_first_the_head_then_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
        schedule constant()
        phase "head", epochs=2 { freeze all - head }
        phase "all", epochs=2 { optimizer sgd(lr=0.01) }
    """
    weights = run_program(MODEL + DATA + recipe, monkeypatch)

    data = digits()
    model = Tiny(10)
    model.body.requires_grad_(False)
    head = torch.optim.AdamW(model.fc.parameters(), lr=1e-3)
    for epoch in range(2):
        keep_still(model)
        for images, labels in batches(data, epoch):
            F.cross_entropy(model(images), labels).backward()
            head.step()
            head.zero_grad()
    model.body.requires_grad_(True)
    everything = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2, 4):
        model.train()
        for images, labels in batches(data, epoch):
            F.cross_entropy(model(images), labels).backward()
            everything.step()
            everything.zero_grad()

    assert_same(model, weights)
