"""The running statistics of normalisation layers, for weights that were not trained but averaged from others."""

import torch
from torch import nn

from leaven.plain.batches import Split
from leaven.plain.run import Phase
from leaven.runtime.model.modes import evaluating


@torch.no_grad()
def update_batch_norm(averaged: nn.Module, trained: nn.Module, phase: Phase, train: Split) -> None:
    """Compute the running statistics of an averaged model from the training data; frozen layers keep theirs."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    found = [(trained.get_submodule(name), norm) for name, norm in averaged.named_modules() if isinstance(norm, kinds)]
    norms = [norm for own, norm in found if norm.track_running_stats and own.training]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    with evaluating(averaged):
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # every batch counts the same
        for inputs, _ in train.batches(phase.epochs_before):
            averaged(inputs.to(phase.run.device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
