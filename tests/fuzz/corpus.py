"""The recipes that are mutated, and the folder with all the files they name."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

EVERYTHING = """\
# Every statement there is.
import "mine.py" as mine
arg lr: float = 3e-4        "the learning rate"
arg photos: path = "photos" "a folder"
arg size: int = 224
arg kind: choice["small", "large"] = "small"
arg short: bool = false
arg title: text = "a \\"title\\"\\n"

let width  = 64 / 2 - 1
let jitter = color_jitter(0.2) -> horizontal_flip()
let lower  = stem + layer1

model resnet18(pretrained=true)
data folder(photos) {
    split       train=80%, val=10%, test=10%, seed=3
    train       random_resized_crop(size) -> jitter -> rand_augment(2, 9)
    eval        resize(256) -> center_crop(size)
    sampler     balanced()
    workers     4
    on_bad_file skip
}
loss      cross_entropy(label_smoothing=0.1)
metrics   accuracy(top=1), f1()
optimizer adamw(lr=lr, weight_decay=0.05, betas=[0.9, 0.99]) {
    group head, lr=lr * 10
    group norms + biases, weight_decay=0
}
schedule cosine(warmup=1 epoch)

phase "warm up", epochs=2 { freeze all - head; schedule constant(); override train_step, mine.train_step }
phase "fine-tune", epochs=28, keep=optimizer {
    freeze   lower, norms=train
    unfreeze layer1, at=3 epochs
    mixup    0.2
    ema      0.999
    early_stop val.accuracy, patience=5 epochs
    drop     loss
}
phase "last", epochs=width {
    reinit head, method=kaiming
    sam    0.05
    swa    75%, lr=1e-4
    distill mine.Net(weights="weights.pth"), temperature=4, weight=0.7
    optimizer sgd(lr=0.1, momentum=0.9)
    loss    focal(gamma=2)
    override eval_step, mine.train_step
}
lora       rank=8, on="layer4.*"
override   after_epoch, mine.after
train      batch=64, precision=bf16, seed=1, accumulate=1, clip=1.0, devices=auto, compile=short
checkpoint every=500 steps, keep=all, by=val.loss
log        tensorboard(), csv()
sweep      lr, log_range(1e-5, 1e-2), trials=10, by=val.f1
output     "runs/here"
"""

CHILD = """\
extends "parent.leaven"
change optimizer, lr=1e-4 { group head, lr=1e-2 }
change phase, "one", epochs=5
drop mixup
log csv()
train batch=8
let width = 3
"""

PARENT = """\
extends "grandparent.leaven"
let width = 2
mixup 0.4
log tensorboard()
phase "one", epochs=3 { freeze all - head }
phase "two", epochs=width { unfreeze layer4 }
"""

GRANDPARENT = """\
arg lr: float = 1e-3 "rate"
model resnet18(pretrained=true)
data  digits() { train rgb() -> resize(64) -> random_rotation(10) }
optimizer sgd(lr=lr, momentum=0.9)
schedule  step(every=3 epochs, factor=0.5)
"""

OWN = """\
import "mine.py" as mine
arg weights: path "of the net"
model mine.Net(depth=3, weights=weights, head="last")
data  mine.Pictures("here", size=[3, 4])
loss  mine.Loss(0.5)
mine.my_trick strength=0.3, on=["a", "b"]
override train_step, mine.train_step
train epochs=3
"""

OWN_BLOCKS = """\
import "mine.py" as mine
let block = mine.Block(8) -> res_block(16) * 2
model conv(8) -> block * 2 -> global_pool() -> linear(classes), weights="weights.pth"
data  cifar10("data") { train random_crop(32, padding=4) -> mine.Shake(0.1) -> horizontal_flip() }
schedule one_cycle(peak=0.1)
train epochs=3, clip=-(-1) * 2 + 3 / 4
"""

TABLE = """\
model torchvision.resnet18()
data  csv("table.csv", image="image", label="label") { eval resize([64, 48]) }
metrics precision(), recall(), auroc()
freeze  first(50%) + stages(1, 3) - type("BatchNorm2d") - "layer*.bn?"
prune structured(by="l1"), amount=40%
train epochs=2
"""

PENDING = """\
# Nothing has a default: every value comes with the command line.
import "mine.py" as mine
arg photos: path
arg size: int
arg rate: float
arg on: bool
arg note: text
arg how: choice["still", "train"]
let double = rate * 2
let sides  = [size, size + 1]
model mine.Net(depth=size, width=rate)
data folder(photos) {
    split val=rate
    train random_resized_crop(size) -> color_jitter(rate) -> random_crop(sides, padding=size)
    eval  resize(size) -> center_crop(size)
    workers size
}
loss      cross_entropy(label_smoothing=rate)
metrics   accuracy(top=size), f1()
optimizer adamw(lr=double, betas=[rate, 0.9]) { group head, lr=-rate / 3 }
schedule  cosine(warmup=size)
phase "only", epochs=size {
    freeze first(3) + stages(1), norms=how
    unfreeze head, at=size
    mixup rate
    early_stop val.accuracy, patience=size, at_least=rate
}
train      batch=size, compile=on, seed=size * 2 - 1, clip=double
checkpoint every=size
output     note
sweep      rate, log_range(rate, 1)
"""

TERSE = "model resnet18;data digits();train(epochs=3,);freeze(all-head)\nlog csv(),tensorboard()\r\nmixup(alpha=.2)"

ODD = """\


\t# a comment with \u00fcml\u00e4uts \U0001f33e
model resnet18(   # behind the bracket
        pretrained=true,   # inside
    )

data digits()
{
    train rgb()
        # before an arrow
        -> resize(  32  )
    ->   horizontal_flip
}; train epochs = 1_0 , seed= -0 + 1 , clip=1.5e0
let unused = "text with # and { and \\\\ in it"
# the end"""

MINE = '''\
"""A user's own file."""
from torch import nn


class Net(nn.Module):
    def __init__(self, depth: int = 2, classes: int = 10, width: float = 1.0): ...


class Block(nn.Module):
    def __init__(self, channels: int): ...


class Loss(nn.Module):
    def __init__(self, alpha: float, reduction: str = "mean"): ...


class Pictures:
    def __init__(self, root: str, size=None): ...


class Shake:
    def __init__(self, amount: float): ...


class my_trick:
    def __init__(self, strength: float = 0.1, on=(), **more): ...
    def after_step(self, module): ...


def train_step(model, batch, loss): ...


def after(run): ...
'''


def recipes() -> list[str]:
    """All recipes of the corpus. The long one comes more often than the others: it has the most to break."""
    examples = [file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.leaven"))]
    own = [
        EVERYTHING,
        EVERYTHING,
        CHILD,
        PARENT,
        GRANDPARENT,
        OWN,
        OWN,
        OWN_BLOCKS,
        OWN_BLOCKS,
        TABLE,
        PENDING,
        TERSE,
        ODD,
    ]
    return [*own, *examples]


def fill(folder: Path) -> None:
    """Put everything that the recipes name into a folder, so that each of them checks without errors."""
    texts = {
        "mine.py": MINE,
        "cifar_resnet.py": (EXAMPLES / "cifar_resnet.py").read_text(encoding="utf-8"),
        "parent.leaven": PARENT,
        "grandparent.leaven": GRANDPARENT,
        "circle.leaven": 'extends "recipe.leaven"\n',
        "broken.leaven": "model (\n",
        "table.csv": "image,label\na.png,x\nb.png,y\n",
        "a.png": "",
        "sst2": "sentence,label\ngood,1\nbad,0\n",
        "weights.pth": "",
        "resnet18.pth": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for place in ("photos", "hymenoptera/train", "hymenoptera/val"):
        for name in ("ants", "bees"):
            (folder / place / name).mkdir(parents=True)
            (folder / place / name / "1.jpg").touch()
