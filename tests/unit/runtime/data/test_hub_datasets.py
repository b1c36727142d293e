"""Datasets of Hugging Face's library, from folders: the hub itself is not reached here."""

import pytest

from leaven.runtime import Failure, hub_dataset

datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hub") / "reviews"
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    rows = {"text": ["fine", "poor", "great", "dull"], "label": [1, 0, 1, 0]}
    splits = {name: datasets.Dataset.from_dict(rows, features) for name in ("train", "validation")}
    datasets.DatasetDict(splits).save_to_disk(folder)
    return str(folder)


def test_labels_have_their_names_and_splits_are_kept(saved: str) -> None:
    found = hub_dataset(saved, text="text")
    assert found.target.names == ("bad", "good")
    assert list(found.values or ()) == [1, 0, 1, 0] * 2
    assert {name: list(there) for name, there in found.predefined.items()} == {
        "train": [0, 1, 2, 3],
        "val": [4, 5, 6, 7],
    }
    assert found.load(2) == "great"


def test_pairs_are_read_together(saved: str) -> None:
    assert hub_dataset(saved, text=["text", "text"]).load(0) == ("fine", "fine")


def test_a_missing_column_is_reported_with_those_that_are_there(saved: str) -> None:
    with pytest.raises(Failure, match="has no column review") as failure:
        hub_dataset(saved, text="review")
    assert failure.value.help == "its columns are text, label"


def test_a_dataset_that_is_neither_here_nor_on_the_hub_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(Failure, match=r"could not be downloaded|can't be read"):
        hub_dataset("nobody/nothing", text="text")
