"""A model that tells colours apart, one of texts with random weights, and a photo that is red with a blue edge."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.unit.bundle.conftest import save_colours

from leaven import bundle
from leaven.bundle import Bundle
from leaven.tasks.classification import Classes


@pytest.fixture(scope="session")
def colours_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_colours(tmp_path_factory.mktemp("models") / "colours.bundle")


@pytest.fixture
def colours(colours_file: Path) -> Bundle:
    return bundle.load(colours_file)


@pytest.fixture
def make_colours(tmp_path: Path) -> Callable[..., Path]:
    """Writes a bundle of the same model, whose classes have other names."""
    return lambda name, *classes: save_colours(tmp_path / name, target=Classes(classes))


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Red in the middle, blue around it: what is seen depends on the crop."""
    monkeypatch.chdir(tmp_path)
    pixels = np.full((40, 40, 3), (0, 0, 200), dtype=np.uint8)
    pixels[4:36, 4:36] = (230, 40, 20)
    Image.fromarray(pixels).save("photo.png")
    return "photo.png"


@pytest.fixture(scope="session")
def reviews_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a tiny BERT with random weights."""
    pytest.importorskip("transformers")
    from tests import tiny_bert

    from leaven.bundle.building import Transformers
    from leaven.runtime.data.texts import Tokenizer
    from leaven.runtime.model.text import text_model

    folder = tmp_path_factory.mktemp("texts")
    bert = tiny_bert.make(folder / "bert")
    model = text_model(bert, 2, pretrained=True)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = {"model_type": "bert", "num_labels": 2, "vocab_size": model.config.vocab_size, **sizes}
    return bundle.save(
        folder / "reviews.bundle",
        model,
        built_by=Transformers("BertForSequenceClassification", {**config, "max_position_embeddings": 64}),
        preprocess=Tokenizer(bert),
        target=Classes(("bad", "good")),
        example="it was good",
    )
