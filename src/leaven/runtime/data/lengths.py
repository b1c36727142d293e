"""Batches of samples of about the same length, so that little of them is padding."""

import numpy as np
import torch

MOST_SORTED = 50  # batches whose samples are sorted together: with more, each epoch would be like the others


def grouped_by_length(order: np.ndarray, lengths: np.ndarray, batch: int, rng: torch.Generator) -> np.ndarray:
    """An order of samples in which those of a batch are about equally long, and batches are in random order.

    It follows from the order and the generator alone. A last, smaller batch stays the last.
    """
    whole = len(order) // batch * batch
    together = max(1, min(MOST_SORTED, whole // batch // 4)) * batch
    parts = [order[start : start + together] for start in range(0, whole, together)]
    parts = [part[np.argsort(-lengths[part], kind="stable")] for part in parts]
    batches = np.concatenate([order[:0], *parts])[:whole].reshape(-1, batch)
    shuffled = batches[torch.randperm(len(batches), generator=rng).numpy()]
    return np.concatenate([shuffled.reshape(-1), order[whole:]])
