"""Layers of a model of the transformers library, known from a folder with its configuration."""

from pathlib import Path

import pytest

import leaven

transformers = pytest.importorskip("transformers")
RECIPE = 'model transformers.auto("bert")\ndata csv("r.csv", text="sentence", label="label")\nfreeze {selector}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.BertConfig(vocab_size=50, **sizes).save_pretrained(tmp_path / "bert")
    (tmp_path / "r.csv").write_text("sentence,label\ngood,1\nbad,0\nfine,1\npoor,0\n")
    return tmp_path


@pytest.mark.parametrize("selector", ["all - head", "stem + stages(1, 2)", "first(50%)", '"*.query" + norms', "biases"])
def test_selectors_are_compared_with_its_layers(folder: Path, selector: str) -> None:
    (folder / "r.leaven").write_text(RECIPE.format(selector=selector))
    checked = leaven.check(folder / "r.leaven")
    assert checked.recipe is not None, checked.diagnostics
    layers = checked.recipe.model.layers
    assert layers is not None
    assert layers.head == ("classifier",)
    assert layers.stem == ("bert.embeddings",)
    assert len(layers.stages) == 3


def test_a_missing_layer_is_reported(folder: Path) -> None:
    (folder / "r.leaven").write_text(RECIPE.format(selector='"bert.encoder.layre.0.*"'))
    checked = leaven.check(folder / "r.leaven")
    assert [found.id for found in checked.diagnostics if found.is_error] == ["unknown-layer"]
