"""The batches of each split."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from leaven.runtime.data.lengths import grouped_by_length
from leaven.runtime.plain.datasets import Samples
from leaven.runtime.plain.seeding import derive_seed, seed_all
from leaven.runtime.plain.texts import EncodedTexts
from leaven.tasks.classification.target import Classes


class Data:
    """The splits of a dataset with their transforms."""

    def __init__(
        self, dataset: Samples, split: dict[str, np.ndarray], train_transform: Any, eval_transform: Any, **options: Any
    ) -> None:
        if dataset.targets is not None:  #: if targets
            target, targets = dataset.target.fitted(dataset.targets, split["train"].tolist())
            dataset = dataset._replace(target=target, targets=targets)
        self.target = dataset.target  #: if targets
        self.target = Classes(dataset.classes)  #: if prunes and not targets
        self.classes = dataset.classes
        dataset = dataset._replace(inputs=EncodedTexts(dataset.inputs, eval_transform))  #: if texts
        self.eval_transform = eval_transform  #: used
        self.train = Split("train", dataset, split["train"], train_transform, **options)
        self.val = Split("val", dataset, split["val"], eval_transform, **options)
        self.test = Split("test", dataset, split["test"], eval_transform, **options)

    @property
    def outputs(self) -> int:  #: if outputs
        """How many outputs a model for this data has."""
        return len(self.classes)

    @property
    def example(self) -> Any:  #: used
        """The first training image, before the transforms."""
        return self.train.image_and_target(int(self.train.indices[0]))[0]

    @property
    def channels(self) -> int:  #: used
        """How many channels an image has after the transforms."""
        return int(self.eval_transform(self.example).shape[-3])


@dataclass
class Split(Dataset[Any]):
    """One of train, val and test."""

    name: str
    dataset: Samples
    indices: np.ndarray
    transform: Any
    batch_size: int
    seed: int
    workers: int = min(4, os.cpu_count() or 1)  #: if workers
    sampler: str = "shuffled"  #: if balanced
    on_bad_file: str = "stop"  #: if skip

    def __len__(self) -> int:  #: if user_code
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:  #: if texts
        return self.dataset.inputs[index], self.dataset.targets[index]

    def __getitem__(self, index: int) -> Any:  #: if not by_position and not texts
        return self.with_mask(self.dataset.inputs[index], self.dataset.targets[index])  #: if masks
        return self.transform(self.dataset.inputs[index]), torch.tensor(self.dataset.targets[index])  #: if targets and not masks
        return self.transform(self.dataset.inputs[index]), self.dataset.targets[index]  #: if not targets

    def __getitem__(self, key: tuple[int, int, int]) -> Any:  #: if by_position
        epoch, position, index = key
        torch.manual_seed(derive_seed(self.seed, epoch, position))  # for the augmentation  #: if augmented
        seed_all(self.seed, epoch, position)  # for the augmentation  #: if user_data
        try:  #: if skip
            image, target = self.image_and_target(index)
        except Exception:  # a damaged file makes Pillow raise nearly anything  #: if skip
            return None
        image, target = self.image_and_target(index)  #: if user_data and not skip
        return self.with_mask(image, target)  #: if read_first and masks
        return self.transform(image), torch.tensor(target)  #: if read_first and targets and not masks
        return self.transform(image), target  #: if read_first and not targets
        return self.with_mask(self.dataset.inputs[index], self.dataset.targets[index])  #: if masks and not read_first
        return self.transform(self.dataset.inputs[index]), torch.tensor(self.dataset.targets[index])  #: if targets and not read_first and not masks
        return self.transform(self.dataset.inputs[index]), self.dataset.targets[index]  #: if not targets and not read_first

    def with_mask(self, image: Any, mask: Any) -> tuple[Any, Tensor]:  #: used
        """An image and its mask after the transforms, which move both."""
        if image.size != (mask.shape[-1], mask.shape[-2]):
            raise ValueError(f"a mask has the shape {tuple(mask.shape)}, but its image has the size {image.size}")
        image, mask = self.transform(image, mask)
        return image, as_target(mask)

    def image_and_target(self, index: int) -> tuple[Any, Any]:  #: used
        if self.dataset.targets is None:  #: if user_data
            return self.dataset.inputs[index]
        return self.dataset.inputs[index], self.dataset.targets[index]

    @property
    def steps(self) -> int:
        """How many batches an epoch has; a last one of a single sample, which can't be normalised, is left out."""
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 1 or (rest == 1 and not full))

    def class_counts(self) -> list[int]:  #: used
        """How many samples each class has."""
        targets = [self.dataset.targets[index] for index in self.indices]
        return [targets.count(number) for number in range(len(self.dataset.classes))]

    def batches(self, epoch: int = 0) -> Iterator[tuple[Any, Tensor]]:
        """Texts and targets; those of a batch are about equally long, to be padded little."""  #: if texts
        """Images and targets; those of train in an order that follows from (seed, epoch)."""  #: if not texts
        indices = self.indices
        lengths = self.dataset.inputs.lengths[indices]  #: if texts
        if self.name == "train":
            rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
            targets = torch.as_tensor(self.dataset.targets)[torch.from_numpy(indices)]  #: if balanced
            weights = 1.0 / torch.bincount(targets).double()[targets]  #: if balanced
            order = torch.multinomial(weights, len(indices), replacement=True, generator=rng)  #: if balanced
            order = torch.randperm(len(indices), generator=rng)  #: if not balanced
            order = torch.from_numpy(grouped_by_length(order.numpy(), lengths, self.batch_size, rng))  #: if texts
            indices = indices[order][: self.steps * self.batch_size]
        else:  #: if texts
            indices = indices[np.argsort(-lengths, kind="stable")]
        keys: Any = indices.tolist()  #: if not by_position
        keys: Any = [(epoch, position, index) for position, index in enumerate(indices.tolist())]  #: if by_position
        loader = DataLoader(self, self.batch_size, sampler=keys, num_workers=self.workers, collate_fn=collate_readable)  #: if skip and not texts
        loader = DataLoader(self, self.batch_size, sampler=keys, num_workers=self.workers)  #: if workers and not skip and not texts
        loader = DataLoader(self, self.batch_size, sampler=keys)  #: if one_thread and not workers and not texts
        together = self.transform.together  #: if texts
        loader = DataLoader(self, self.batch_size, sampler=keys, num_workers=self.workers, collate_fn=together)  #: if texts and workers
        loader = DataLoader(self, self.batch_size, sampler=keys, collate_fn=together)  #: if texts and not workers
        return (batch for batch in loader if batch is not None)  #: if texts and skip
        return iter(loader)  #: if texts and not skip
        return in_one_thread(loader)  #: if one_thread and not texts
        return iter(loader)  #: if workers and not one_thread and not texts
        return iter(DataLoader(self, self.batch_size, sampler=keys))  #: if not workers and not one_thread and not texts


def collate_readable(samples: list[Any]) -> Any:
    """A batch of the samples that could be read; None where there are none."""
    readable = [sample for sample in samples if sample is not None]
    return default_collate(readable) if readable else None


def in_one_thread(loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches loaded as in a worker: with more threads, a mean over an image's pixels has other last digits."""
    threads, batches = torch.get_num_threads(), iter(loader)
    while True:
        torch.set_num_threads(1)
        batch: Any = next(batches, StopIteration)
        torch.set_num_threads(threads)
        if batch is StopIteration:
            return
        if batch is not None:  #: if skip
            yield batch
        yield batch  #: if not skip
