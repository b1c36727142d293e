"""Names of other tools, and what comes nearest here."""

import pytest

from leaven.catalog.other_names import counterpart, named_by


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


@pytest.mark.parametrize(
    ("call", "arguments", "form"),
    [
        ("datasets.CocoDetection", {"0": '"photos"', "1": '"all.json"'}, 'coco("photos")'),
        ("datasets.ImageFolder", {"root": '"photos"'}, 'folder("photos")'),
        ("datasets.CIFAR10", {"root": '"photos"'}, 'cifar10("data")'),
        ("load_dataset", {"0": '"csv"', "data_files": '"a.csv"'}, 'csv("a.csv", text="…", label="…")'),
        ("glue", {"0": '"sst2"'}, 'datasets.auto("stanfordnlp/sst2", text="sentence", label="label")'),
    ],
)
def test_a_call_that_reads_files_is_not_the_name_of_a_dataset(call: str, arguments: dict[str, str], form: str) -> None:
    found = named_by("data", call, arguments)
    assert found is not None
    assert found.form == form
