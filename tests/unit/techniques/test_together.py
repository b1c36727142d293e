"""Techniques of every kind in one recipe: a net is pruned, gets low-rank additions, is taught by its former self,
merged, and exported."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests import at_work

import leaven
from leaven.cli.main import leaven as command

RECIPE = Path(__file__).parents[3] / "examples" / "smaller.leaven"


@pytest.mark.slow
def test_one_recipe_prunes_adapts_distils_merges_and_exports(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, RECIPE.read_text(encoding="utf-8").replace("resize(64)", "resize(32)"))
    said = at_work.run(file, "--quick").said
    assert "pruned: 30" in said
    bundle = at_work.run_folder(file) / "model.bundle"
    assert bundle.stat().st_size < 0.8 * 13.7e6  # what the whole net takes
    model = leaven.load(bundle)
    names = {name for name, _ in model.model.named_parameters()}
    assert not [name for name in names if "lora" in name or "base_layer" in name]
    assert sum(share for _, share in model(Image.new("L", (8, 8), 90)).top(10)) > 0.999
    done = CliRunner().invoke(command, ["export", str(bundle), "--to", "onnx"])
    assert done.exit_code == 0, done.output
    assert "same outputs as model.bundle" in done.output


def test_what_was_pruned_and_adapted_answers_as_the_bundle_does(tmp_path: Path) -> None:
    recipe = """
model conv(16) -> res_block(32, stride=2) -> global_pool() -> linear(classes)
data digits() { split train=80 samples, val=20 samples, test=20 samples }
phase "learn", epochs=1 { }
phase "shrink", epochs=0 { prune structured(), amount=50% }
phase "recover", epochs=2 { lora rank=2; distill before_phase("shrink"); ema 0.9 }
train batch=8
"""
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    best = torch.load(folder / "best.ckpt", weights_only=True)["model"]
    merged = leaven.load(folder / "model.bundle").model.state_dict()
    layer = next(name.partition(".lora_A")[0] for name in best if ".lora_A" in name)
    weight = f"{layer}.weight"
    low, high = (next(best[name] for name in best if name.startswith(f"{layer}.lora_{side}.")) for side in "AB")
    added = (high.flatten(1) @ low.flatten(1)).reshape(merged[weight].shape)
    assert torch.allclose(merged[weight], best[f"{layer}.base_layer.weight"] + added, atol=1e-5)


def test_what_was_frozen_before_a_phase_that_only_prepares_moves_after_it(tmp_path: Path) -> None:
    recipe = """
model conv(8) -> res_block(16, stride=2) -> global_pool() -> linear(classes)
data digits() { split train=80 samples, val=20 samples, test=20 samples }
phase "head", epochs=1 { freeze all - head }
phase "shrink", epochs=0 { prune structured(), amount=50% }
phase "all", epochs=1 { }
train batch=8
"""
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    left = torch.load(folder / "phase2.ckpt", weights_only=True)["model"]
    last = torch.load(folder / "last.ckpt", weights_only=True)["state"]["model"]
    still = [name for name in left if name.endswith("weight") and torch.equal(left[name], last[name])]
    assert not still


def test_techniques_of_one_kind_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "soup.py").write_text("class Soup:\n    def after_step(self, module):\n        pass\n")
    recipe = 'import "soup.py" as soup\nmodel conv(4) -> global_pool() -> linear(classes)\n'
    recipe += "data digits() { split train=20 samples, val=10 samples, test=10 samples }\n"
    recipe += "soup.Soup\nsoup.Soup\nsoup.Soup\ntrain epochs=1\n"
    file = at_work.program(tmp_path, recipe)
    assert file.read_text().count("soup.Soup()") == 3
    at_work.run(file)


def test_features_are_compared_and_not_the_weights_under_a_mask(tmp_path: Path) -> None:
    recipe = """
model conv(8) -> res_block(16, stride=2) -> global_pool() -> linear(classes)
data digits() { split train=80 samples, val=20 samples, test=20 samples }
phase "a", epochs=1 { }
phase "b", epochs=1 { prune unstructured(), amount=30%; distill_features before_phase("a"), method=hint }
train batch=32
"""
    at_work.run(at_work.program(tmp_path, recipe))
