"""The running statistics of normalisation layers, for weights that were not trained but averaged from others."""

from itertools import islice

import torch
from torch import nn

from leaven.runtime.data.batches import Split
from leaven.runtime.model.modes import evaluating
from leaven.runtime.run.phase import Phase

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def update_batch_norm(averaged: nn.Module, trained: nn.Module, phase: Phase, train: Split) -> None:
    """Compute the running statistics of an averaged model from the training data.

    Layers that are frozen in the trained model keep theirs. The batches are always those of the phase's first epoch,
    so that the same weights always get the same statistics.
    """
    norms = [
        module
        for name, module in averaged.named_modules()
        if isinstance(module, _NORMS) and module.track_running_stats and trained.get_submodule(name).training
    ]
    if not norms:
        return
    fabric, momenta = phase.run.fabric, [norm.momentum for norm in norms]
    batches = train.batches(phase.epochs_before, rank=fabric.global_rank, world=fabric.world_size)
    with evaluating(averaged), torch.no_grad(), fabric.autocast():
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # every batch counts the same
        with phase.outlook.bar("batch norm", phase.loop.whole.batches) as bar:
            for images, _ in islice(batches, phase.loop.whole.batches):
                averaged(fabric.to_device(images))
                bar.advance()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
