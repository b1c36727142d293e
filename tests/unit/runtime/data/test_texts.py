"""Texts: tokenized once, cut and counted where they are too long, in batches of about the same length."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import tiny_bert

from leaven.runtime import BadFile, Caution, Data, Failure, Tokenizer, split, table, text_folder
from leaven.runtime.data.lengths import grouped_by_length
from leaven.runtime.data.samples import collate
from leaven.runtime.data.splits import EMPTY, SplitIndices

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert.make(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def tokenizer(bert: Path) -> Tokenizer:
    return Tokenizer(bert)


def write(file: Path, rows: list[str]) -> Path:
    file.write_bytes("\n".join(["text,label", *rows, ""]).encode("utf-8", "surrogateescape"))
    return file


def data_of(file: Path, tokenizer: Tokenizer, **settings: object) -> Data:
    dataset = table(file, text="text", on_bad_file=settings.get("on_bad_file", "stop"))  # type: ignore[arg-type]
    indices = SplitIndices(np.arange(len(dataset)), EMPTY, EMPTY)
    return Data(dataset, indices, train_transform=tokenizer, eval_transform=tokenizer, **settings)  # type: ignore[arg-type]


def test_a_text_has_the_tokens_that_its_model_knows(tokenizer: Tokenizer) -> None:
    sample = tokenizer("The film was good")
    assert tokenizer.tokens(sample) == ["[CLS]", "the", "film", "was", "good", "[SEP]"]
    assert tokenizer.max_length == 64, "what the model takes"


def test_a_pair_says_which_part_a_token_is_of(tokenizer: Tokenizer) -> None:
    sample = tokenizer(("the film", "good"))
    assert sample["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1]


def test_texts_of_a_batch_are_padded_to_the_longest(tokenizer: Tokenizer) -> None:
    batch = collate([tokenizer("good"), tokenizer("the film was good")])
    assert batch["input_ids"].shape == (2, 6)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6]


def test_texts_can_always_be_padded_to_one_length(bert: Path) -> None:
    fixed = Tokenizer(bert, max_length=16, padding="max_length")
    assert collate([fixed("good")])["input_ids"].shape == (1, 16)


def test_more_tokens_than_the_model_takes_are_refused(bert: Path) -> None:
    with pytest.raises(Failure, match="at most 64 tokens, not 100"):
        Tokenizer(bert, max_length=100)


def test_long_texts_are_cut_and_counted(bert: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [f"{'good ' * 30},a", "the film,b", f"{'bad ' * 9},a"])
    with pytest.warns(Caution, match="2 of 3 texts have more than 8 tokens"):
        data = data_of(file, Tokenizer(bert, max_length=8), batch_size=3)
    (inputs, _), *_ = data.train.batches(0)
    assert inputs["input_ids"].shape == (3, 8)


def test_a_batch_has_texts_of_about_the_same_length(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [f"{'good ' * (1 + 7 * number % 40)},{number % 2}" for number in range(200)])
    data = data_of(file, tokenizer, batch_size=8)
    masks = [inputs["attention_mask"].float() for inputs, _ in data.train.batches(3)]
    grouped = sum(mask.numel() for mask in masks) / sum(float(mask.sum()) for mask in masks)
    assert grouped < 1.2, "hardly any padding"


def test_every_epoch_has_each_text_once_in_another_order(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [f"{'good ' * (1 + number % 9)},{number % 2}" for number in range(43)])
    data = data_of(file, tokenizer, batch_size=8)
    orders = [np.concatenate([key.indices for key in data.train.keys(epoch)]) for epoch in (0, 0, 1)]  # type: ignore[attr-defined]
    assert sorted(orders[0]) == list(range(43))
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_processes_share_the_batches_of_one(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [f"{'good ' * (1 + number % 9)},{number % 2}" for number in range(40)])
    keys = data_of(file, tokenizer, batch_size=8).train.keys  # type: ignore[attr-defined]
    both = zip(keys(2, 0, 2), keys(2, 1, 2), strict=True)
    together = [np.concatenate([one.indices, other.indices]) for one, other in both]
    assert all(map(np.array_equal, together, [key.indices for key in keys(2)]))


def test_the_order_follows_from_the_generator_alone() -> None:
    lengths = np.arange(50) % 13
    order = torch.randperm(50, generator=torch.Generator().manual_seed(1)).numpy()
    found = [grouped_by_length(order, lengths, 8, torch.Generator().manual_seed(2)) for _ in range(2)]
    assert np.array_equal(*found)
    assert sorted(found[0]) == list(range(50))
    assert np.array_equal(found[0][48:], order[48:]), "the smaller batch stays the last"


def test_the_longest_are_evaluated_first(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", [f"{'good ' * (1 + number)},{number % 2}" for number in range(20)])
    dataset = table(file, text="text")
    indices = SplitIndices(np.arange(10), np.arange(10, 20), EMPTY)
    data = Data(dataset, indices, train_transform=tokenizer, eval_transform=tokenizer, batch_size=4)
    widths = [inputs["input_ids"].shape[1] for inputs, _ in data.val.batches(0)]
    assert all(one >= other for one, other in pairwise(widths))


BROKEN = ["the film,a", ",a", "good,b", "caf\udce9,b", "bad,a", "fine,b"]


def test_a_text_that_can_not_be_used_ends_the_run(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"line 3 of .*t\.csv can't be read: it has no text"):
        data_of(write(tmp_path / "t.csv", BROKEN[:3]), tokenizer)
    with pytest.raises(Failure, match=r"line 5 of .*t\.csv` is not UTF-8 text"):
        data_of(write(tmp_path / "t.csv", BROKEN), tokenizer)


def test_texts_that_can_not_be_used_are_skipped(tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = data_of(write(tmp_path / "t.csv", BROKEN), tokenizer, on_bad_file="skip", batch_size=6)
    (_, targets), *_ = data.train.batches(0)
    assert len(targets) == 4
    assert [name.partition(" of")[0] for name in data.skipped] == ["line 3", "line 5"]


def test_a_folder_of_text_files_has_a_class_per_folder(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for number, (text, label) in enumerate(tiny_bert.reviews(20)):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{number}.txt").write_text(text)
    dataset = text_folder(tmp_path)
    assert dataset.target.names == ("bad", "good")
    assert dataset.load(0).startswith("this story is")
    data = Data(dataset, split(dataset), train_transform=tokenizer, eval_transform=tokenizer)
    assert (len(data.train), len(data.val), len(data.test)) == (16, 2, 2)
