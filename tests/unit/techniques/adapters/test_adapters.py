"""Adapters train beside layers that keep still, and become part of them; or are kept apart from a model others have."""

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests import at_work
from tests.at_work import Moment
from torch import Tensor, nn
from torchvision.transforms import v2 as T

import leaven
from leaven import bundle, techniques
from leaven.bundle.archive import read_archive, write_archive
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import freeze, parameter_groups, parameters_under, set_training, trainable, unfreeze
from leaven.runtime.model.masks import add_mask
from leaven.runtime.model.weights import load_weights, read_weights
from leaven.tasks.classification import Classes
from leaven.techniques.adapters.adapter import adapters_of

IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
BODY = ["conv", "mix", "fc"]
KINDS: dict[str, Callable[[], techniques.Lora | techniques.Dora | techniques.Ia3]] = {
    "lora": lambda: techniques.Lora(rank=2, on=BODY, alpha=4, dropout=0.1),
    "dora": lambda: techniques.Dora(rank=2, on=BODY),
    "ia3": lambda: techniques.Ia3(on=BODY),
}


class Net(nn.Module):
    """Convolutions with and without bias and groups, statistics, dropout, a linear layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.each = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.mix = nn.Sequential(nn.Conv2d(8, 12, 1, bias=False), nn.BatchNorm2d(12, affine=False))
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(12, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.mix(self.each(self.norm(self.conv(images)).relu()))
        outputs: Tensor = self.head(self.fc(self.drop(hidden.mean((2, 3)))))
        return outputs


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def train(module: nn.Module, steps: int = 4) -> None:
    optimizer = torch.optim.AdamW(trainable(module), lr=0.1, weight_decay=0.1)
    for _ in range(steps):
        set_training(module)
        module(IMAGES).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


# -- adapters on layers


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_adapters_and_head_are_trained_and_nothing_else_changes(make: Callable[[], techniques.Lora]) -> None:
    module, was = net(), net().eval()
    make().on_model(module)
    assert torch.equal(module.eval()(IMAGES), was(IMAGES))
    freeze(module, all_but=["head"], keep_dropout=True)
    train(module)
    assert not torch.allclose(module.eval()(IMAGES), was(IMAGES), atol=1e-3)
    now = {name.replace(".base_layer.", "."): value for name, value in module.state_dict().items()}
    for name, value in was.state_dict().items():
        assert torch.equal(now[name], value) == (not name.startswith("head.")), name


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_merged_it_is_a_plain_model_that_answers_alike(make: Callable[[], techniques.Lora]) -> None:
    module = net()
    make().on_model(module)
    freeze(module, all_but=["head"], keep_dropout=True)
    train(module)
    copied = copy.deepcopy(module)
    trained = module.eval()(IMAGES)
    techniques.merge_adapters(module)
    assert torch.allclose(module(IMAGES), trained, atol=1e-5)
    assert [(name, type(part)) for name, part in module.named_modules()] == [
        (name, type(part)) for name, part in net().named_modules()
    ]
    assert list(module.state_dict()) == list(net().state_dict())
    assert adapters_of(module) == ()
    techniques.merge_adapters(copied)  # an average of weights is a copy, and can be merged as well
    assert torch.equal(copied.eval()(IMAGES), module(IMAGES))


def test_what_is_kept_aside_is_not_merged() -> None:
    module = net()
    techniques.Lora(rank=2, on=["conv"], merge=False).on_model(module)
    techniques.Ia3(on=["fc"]).on_model(module)
    techniques.merge_adapters(module)
    assert [type(part) is nn.Linear for part in (module.fc, module.head)] == [True, True]
    assert type(module.conv) is not nn.Conv2d
    assert [type(added.adapter) for added in adapters_of(module)] == [techniques.Lora]


def test_a_second_adapter_leaves_the_first_at_work() -> None:
    module = net()
    techniques.Lora(rank=2, on=["conv"]).on_model(module)
    techniques.Ia3(on=["fc"]).on_model(module)
    freeze(module, all_but=["head"], keep_dropout=True)
    module(IMAGES).square().mean().backward()
    moving = {name for name, weight in module.named_parameters() if weight.grad is not None}
    assert {name.partition(".")[0] for name in moving} == {"conv", "fc", "head"}
    with pytest.raises(Failure, match="conv already has an adapter"):
        techniques.Dora(rank=2, on=["conv"]).on_model(module)


def test_they_are_drawn_from_the_weights_whatever_happened_before() -> None:
    def drawn(module: nn.Module, noise: int) -> Tensor:
        torch.manual_seed(noise)
        after = torch.get_rng_state()
        techniques.Lora(rank=2, on=["fc"]).on_model(module)
        assert torch.equal(torch.get_rng_state(), after)
        return module.get_parameter("fc.lora_A.leaven.weight")

    other = net()
    nn.init.normal_(other.head.bias)
    assert torch.equal(drawn(net(), 1), drawn(net(), 2))
    assert not torch.equal(drawn(net(), 1), drawn(other, 1))


# -- what keeps still


def test_dropout_continues_where_only_an_adapter_froze() -> None:
    module = net()
    techniques.Lora(rank=2, on=BODY).on_model(module)
    freeze(module, all_but=["head"], keep_dropout=True)
    assert module.drop.training
    assert {name for name, part in module.named_modules() if not part.training} == {"norm", "mix.1"}
    freeze(module, all_but=["head"], keep_dropout=["mix", "fc"])  # the rest was frozen by the recipe
    still = {name for name, part in module.named_modules() if not part.training}
    assert still == {"conv.base_layer", "norm", "each", "mix.1"}


def test_freezing_never_means_the_adapters() -> None:
    module = net()
    techniques.Lora(rank=2, on=BODY, dropout=0.5).on_model(module)
    freeze(module)
    moving = [name for name, weight in module.named_parameters() if weight.requires_grad]
    assert len(moving) == 6
    assert all("lora_" in name for name in moving)
    set_training(module)
    assert module.get_submodule("fc.lora_dropout").training
    assert not module.drop.training
    unfreeze(module)
    assert len(trainable(module)) == len(list(module.parameters()))


def test_a_freeze_from_before_the_adapters_is_lifted_by_the_old_names() -> None:
    module = net()
    freeze(module, only=["conv", "fc.bias"])
    techniques.Lora(rank=2, on=BODY).on_model(module)
    assert not module.get_parameter("conv.base_layer.weight").requires_grad
    unfreeze(module)
    assert all(weight.requires_grad for weight in module.parameters())


def test_paths_mean_what_they_meant_before() -> None:
    module = net()
    own = list(module.fc.parameters())
    techniques.Lora(rank=2, on=["fc"]).on_model(module)
    assert parameters_under(module, ["fc"]) == set(own)
    assert parameters_under(module, ["fc.weight"]) == {own[0]}
    assert len(parameters_under(module, ["fc"], with_adapters=True)) == 4
    kernel = module.each.weight
    add_mask(module.each)
    assert parameters_under(module, ["each.weight"]) == {kernel}


def test_a_group_of_layers_takes_their_adapters() -> None:
    module = net()
    techniques.Lora(rank=2, on=BODY).on_model(module)
    freeze(module, all_but=["head"], keep_dropout=True)
    rest, of_fc = parameter_groups(module, (["fc"], {"lr": 0.1}))
    assert len(of_fc["params"]) == 2
    assert len(rest["params"]) == 6
    assert not {*map(id, rest["params"])} & {*map(id, of_fc["params"])}


# -- recipes


def written(recipe: str) -> str:
    return leaven.generate(Source("recipe.leaven", recipe))


LITE = "model efficientnet_lite0(pretrained=true)\ndata digits()\n"


def test_the_layers_are_chosen_by_the_net() -> None:
    on_convolutions = written(LITE + "lora rank=4\n")
    assert 'on=["blocks.*.*.conv_pw", "blocks.*.*.conv_pwl", "conv_head"]' in on_convolutions
    on_attention = written("model vit_tiny_patch16_224()\ndata digits()\nlora rank=4\n")
    assert 'on=["blocks.*.attn", "blocks.*.mlp"]' in on_attention  # all that these have are linear layers


def test_what_moves_is_counted_with_the_adapters() -> None:
    head, extra = 1280 * 10 + 10, 4 * (320 + 1280)
    told = written(LITE + "lora rank=4, on=conv_head\n")
    assert f"{head + extra:,} of {3_383_818 + extra:,} parameters trainable" in told
    assert "# line 3; adapters stay trainable; layers frozen only because of an adapter keep their own dropout" in told
    assert 'runtime.freeze(model, all_but=["classifier"], keep_dropout=True)' in told


def test_small_parts_alone_are_freezes() -> None:
    assert 'runtime.freeze(model, all_but=["classifier"])  # line 3' in written(LITE + "linear_probe\n")
    norms = written(LITE + "norm_tuning\n")
    assert 'runtime.freeze(model, all_but=["bn*", "blocks.*.*.bn*", "classifier"])  # line 3' in norms
    biases = written(LITE + "bitfit\n")
    assert 'all_but=["bn*.bias", "blocks.*.*.bn*.bias", "classifier"])  # line 3' in biases


def test_adapters_stay_in_later_phases() -> None:
    told = written(
        LITE + 'phase "one", epochs=1 { lora rank=4 }\nphase "two", epochs=1 { freeze stem }\n'
        'phase "three", epochs=1 { unfreeze norms }\n'
    )
    assert told.count("techniques.Lora") == 1
    assert "# lines 3, 4; adapters stay trainable" in told
    assert 'keep_dropout=["blocks", "conv_head", "bn2"])' in told
    assert "# lines 3, 5; adapters stay trainable" in told
    assert 'all_but=["bn*", "blocks.*.*.bn*", "classifier"], keep_dropout=True)' in told


def test_without_the_library_the_check_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    (found,) = check(Source("recipe.leaven", LITE + "ia3\n")).diagnostics
    assert (found.id, found.headline) == ("missing-library", "`ia3` needs the library peft, which is not installed")
    assert check(Source("recipe.leaven", LITE + "bitfit\n")).recipe is not None


RECIPE = """
model conv(8) -> conv(16, stride=2) -> dropout(0.2) -> global_pool() -> linear(classes)
data digits() { train random_crop(8, padding=1); split train=160 samples, val=40 samples, test=40 samples }
optimizer adamw(lr=0.01)
phase "whole", epochs=1 {}
phase "adapted", epochs=2 { dora rank=2, dropout=0.1; ema 0.9 }
phase "after", epochs=2 { bitfit }
train batch=4
"""  # 40 steps in each epoch


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program with adapters, and a run of it that nothing interrupted."""
    file = at_work.program(tmp_path_factory.mktemp("adapted"), RECIPE)
    at_work.run(file, "--output", "whole")
    return file, at_work.run_folder(file, "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "first"),
    [
        (Moment(step=50), "adapted 1/2"),
        (Moment(step=110), "adapted 2/2"),
        (Moment(file="phase2.ckpt"), "after 1/2"),
        (Moment(step=170), "after 2/2"),
    ],
    ids=str,
)
def test_a_run_with_adapters_resumes_with_the_same_bytes(
    adapted: tuple[Path, Path], moment: Moment, first: str
) -> None:
    file, whole = adapted
    at_work.kill(file, "--output", f"cut-{moment}", at=moment)
    cut = at_work.run_folder(file, f"cut-{moment}")
    assert at_work.run(file, "--resume", str(cut)).epochs[0] == first
    for name in ("last.ckpt", "best.ckpt", "model.bundle"):
        one, other = read_weights(cut / name), read_weights(whole / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    assert "0.conv.lora_A.leaven.weight" in read_weights(whole / "last.ckpt")
    assert not any("lora" in key or "base_layer" in key for key in read_weights(whole / "model.bundle"))


# -- kept aside

PARTS = [
    ("Conv", {"in_channels": 3, "channels": 8}),
    ("Conv", {"in_channels": 8, "channels": 64}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 64, "features": 3}),
]


@pytest.fixture(scope="module")
def aside(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tensor]:
    """A bundle of adapters over the weights in a file beside it, and what its model says."""
    folder = tmp_path_factory.mktemp("aside")
    torch.manual_seed(0)
    module = _built()
    torch.save(module.state_dict(), folder / "whole.pth")
    techniques.Lora(rank=2, on=["0.conv", "1.conv"], merge=False).on_model(module)
    freeze(module, all_but=["3"], keep_dropout=True)
    train(module)
    techniques.merge_adapters(module)
    file = bundle.save(
        folder / "small.bundle",
        module,
        built_by=bundle.Components(PARTS),
        preprocess=T.Compose([T.Resize([8, 8]), T.ToImage(), T.ToDtype(torch.float32, scale=True)]),
        target=Classes(("a", "b", "c")),
        over=bundle.Over(file=folder / "whole.pth", new=["3"]),
    )
    return file, module.eval()(IMAGES).detach()


def _built() -> nn.Module:
    return nn.Sequential(Conv(3, 8), Conv(8, 64), GlobalPool(), Linear(64, 3))


def test_the_bundle_holds_adapters_and_head_alone(aside: tuple[Path, Tensor]) -> None:
    file, _ = aside
    held = safetensors.torch.load(read_archive(file)["weights.safetensors"])
    assert {name.split(".")[0] if name.startswith("3") else name.split(".")[2] for name in held} == {
        "lora_A",
        "lora_B",
        "3",
    }


def test_over_its_base_it_answers_as_it_was_trained(aside: tuple[Path, Tensor]) -> None:
    file, said = aside
    loaded = bundle.load(file)
    assert torch.allclose(loaded.model(IMAGES), said, atol=1e-5)
    assert list(loaded.model.state_dict()) == list(_built().state_dict())
    assert "whole.pth" in loaded.card


def test_a_stranger_puts_the_base_beside_it(aside: tuple[Path, Tensor], tmp_path: Path) -> None:
    file, said = aside
    (tmp_path / "got.bundle").write_bytes(file.read_bytes())
    with pytest.raises(Failure, match=r"trained over the weights in whole\.pth, which is not here"):
        bundle.load(tmp_path / "got.bundle")
    (tmp_path / "whole.pth").write_bytes((file.parent / "whole.pth").read_bytes())
    assert torch.allclose(bundle.load(tmp_path / "got.bundle").model(IMAGES), said, atol=1e-5)


def test_another_base_is_refused(aside: tuple[Path, Tensor], tmp_path: Path) -> None:
    file, _ = aside
    (tmp_path / "got.bundle").write_bytes(file.read_bytes())
    torch.save(_built().state_dict(), tmp_path / "whole.pth")
    with pytest.raises(Failure, match=r"trained over other weights than those of whole\.pth"):
        bundle.load(tmp_path / "got.bundle")


def test_without_peft_it_reports_what_is_missing(aside: tuple[Path, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(Failure, match="PEFT, which applies them, is not installed"):
        bundle.load(aside[0])


def test_adapters_alone_are_no_weights(aside: tuple[Path, Tensor]) -> None:
    with pytest.raises(Failure, match="has adapters only"):
        load_weights(_built(), aside[0])


@pytest.mark.parametrize(
    "change",
    [
        {"over": 3},
        {"weights": {"file": 3}},
        {"weights": {}},
        {"adapters": [{"kind": "rm"}]},
        {"adapters": [{"kind": "lora", "layers": ["0.conv"], "rank": 10**9, "alpha": None, "dropout": 0.0}]},
        {"adapters": [{"kind": "lora", "layers": ["9.conv"], "rank": 2, "alpha": None, "dropout": 0.0}]},
    ],
    ids=str,
)
def test_the_base_in_a_bundle_is_not_trusted(
    aside: tuple[Path, Tensor], tmp_path: Path, change: dict[str, object]
) -> None:
    members = read_archive(aside[0])
    manifest = json.loads(members["bundle.json"])
    manifest["over"] = change.get("over", {**manifest["over"], **change})
    members["bundle.json"] = json.dumps(manifest).encode()
    del members["checksums.json"]
    write_archive(tmp_path / "changed.bundle", members)
    (tmp_path / "whole.pth").write_bytes((aside[0].parent / "whole.pth").read_bytes())
    with pytest.raises(Failure):
        bundle.load(tmp_path / "changed.bundle")
