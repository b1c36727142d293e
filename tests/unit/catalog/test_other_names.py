"""Names of other tools, and what comes nearest here."""

import pytest

from leaven.catalog.other_names import counterpart


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("tweet_eval", 'datasets.auto("cardiffnlp/tweet_eval", config="sentiment", text="text", label="label")'),
        ("tweet_eval/emotion", 'datasets.auto("cardiffnlp/tweet_eval", config="emotion", text="text", label="label")'),
        ("flowers102", 'torchvision.flowers102("data")'),
        ("tf_flowers", 'folder("…")'),  # other flowers, of five kinds
        ("imagenet-1k", 'imagenet("data/imagenet")'),
        ("tiny-imagenet-200", 'folder("…")'),  # 200 of its classes, at 64 pixels
    ],
)
def test_a_dataset_is_not_taken_for_another(name: str, form: str) -> None:
    found = counterpart("data", name)
    assert found is not None
    assert found.form == form
