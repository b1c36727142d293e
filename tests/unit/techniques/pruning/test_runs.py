"""Whole runs that prune: they go on after an interruption, and leave bundles that anybody can use."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.at_work import Moment

import leaven
from leaven.bundle.archive import read_archive, write_archive
from leaven.runtime.failures import Failure

RECIPE = """
model conv(16) -> conv(32, stride=2) -> res_block(32) -> global_pool() -> linear(classes)
data digits() { split train=160 samples, val=40 samples, test=40 samples }
optimizer sgd(lr=0.05, momentum=0.9)
phase "learn", epochs=2 { }
phase "shrink", epochs=2 { prune structured(by="l1"), amount=50% }
phase "cut", epochs=0 { prune structured(by="random", of="parameters"), amount=20%, on="1" + "2" }
phase "thin out", epochs=3 { prune unstructured(), amount=75%, over=2 epochs; ema 0.5 }
train batch=16
"""  # 10 steps in each epoch
WITHOUT = "import sys; sys.modules['torch_pruning'] = None; import leaven; "


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A program, a run of it that nothing interrupted, and what it said."""
    file = at_work.program(tmp_path_factory.mktemp("whole"), RECIPE)
    running = at_work.run(file, "--output", "whole")
    return file, at_work.run_folder(file, "whole"), running.said


def weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    saved = torch.load(folder / name, weights_only=True)
    return dict(saved["state"]["model"] if "state" in saved else saved["model"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "first"),
    [
        (Moment(step=15), "learn 2/2"),
        (Moment(file="phase1.ckpt"), "shrink 1/2"),
        (Moment(step=35), "shrink 2/2"),
        (Moment(file="phase3.ckpt"), "thin out 1/3"),
        (Moment(step=55), "thin out 2/3"),
        (Moment(step=65), "thin out 3/3"),
    ],
    ids=str,
)
def test_killed_at_any_moment_it_resumes_with_the_same_bytes(
    whole: tuple[Path, Path, str], moment: Moment, first: str
) -> None:
    file, uncut, _ = whole
    output = f"killed-{moment}"
    at_work.kill(file, "--output", output, at=moment)
    folder = at_work.run_folder(file, output)
    assert at_work.run(file, "--resume", str(folder)).epochs[0] == first
    for name in ("last.ckpt", "best.ckpt"):
        one, other = weights(folder, name), weights(uncut, name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    assert leaven.load(folder).model.state_dict().keys() == leaven.load(uncut).model.state_dict().keys()


def test_the_run_reports_what_was_pruned(whole: tuple[Path, Path, str]) -> None:
    said = whole[2]
    assert said.count("time per image") == 2
    assert "50.0 % of the channels" in said
    assert "65.6 % of the" in said
    assert "75.0 % of the" in said


def test_the_bundle_holds_a_smaller_model_with_zeros_in_it(whole: tuple[Path, Path, str]) -> None:
    model = leaven.load(whole[1]).model
    convolutions = [part for part in model.modules() if isinstance(part, torch.nn.Conv2d)]
    assert convolutions[0].out_channels == 8
    assert convolutions[1].out_channels <= 16
    for part in convolutions:
        assert 0.73 < float((part.weight == 0).float().mean()) < 0.77
    assert (model[-1].weight != 0).all(), "the head stays whole"


@pytest.mark.slow
def test_it_is_loaded_exported_and_asked_where_torch_pruning_is_not(
    whole: tuple[Path, Path, str], tmp_path: Path
) -> None:
    bundle = whole[1] / "model.bundle"
    code = (
        f"{WITHOUT} b = leaven.load({str(bundle)!r}); b.export('onnx', {str(tmp_path / 'net.onnx')!r}); print(b.model)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "net.onnx").is_file()


def test_its_weights_begin_another_run(whole: tuple[Path, Path, str], tmp_path: Path) -> None:
    recipe = f"""
let net = conv(16) -> conv(32, stride=2) -> res_block(32) -> global_pool() -> linear(classes)
model net, weights="{whole[1]}/model.bundle"
data digits() {{ split train=40 samples, val=20 samples, test=20 samples }}
train epochs=1, batch=20
"""
    file = at_work.program(tmp_path, recipe)
    at_work.run(file, "--output", "again")
    again = leaven.load(at_work.run_folder(file, "again"))
    shapes = {name: value.shape for name, value in leaven.load(whole[1]).model.state_dict().items()}
    assert {name: value.shape for name, value in again.model.state_dict().items()} == shapes


def test_sizes_only_ever_shrink_a_net(whole: tuple[Path, Path, str], tmp_path: Path) -> None:
    members = dict(read_archive(whole[1] / "model.bundle"))
    manifest = members["bundle.json"].decode()
    assert '"sizes"' in manifest
    for number, (old, new) in enumerate(
        [('"out_channels": 8', '"out_channels": 800'), ('"out_channels": 8', '"forward": 8'), ('"sizes"', '"seizes"')]
    ):
        assert old in manifest
        changed = {name: content for name, content in members.items() if name != "checksums.json"}
        changed["bundle.json"] = manifest.replace(old, new, 1).encode()
        file = tmp_path / f"{number}.bundle"
        write_archive(file, changed)
        with pytest.raises(Failure):
            leaven.load(file)
