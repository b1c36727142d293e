"""The statistics of normalisation layers, for weights that were not trained but made of others."""

from itertools import islice

import torch
from torch import nn

from leaven.runtime.model.freezing import stays_in_eval
from leaven.runtime.run.phase import Phase

_KEEPERS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def update_batch_norm(made: nn.Module, trained: nn.Module, phase: Phase) -> None:
    """Let the normalisation layers of a model that was made of a trained one see the training data anew.

    Those that are still in the trained one stay as they are. The batches are always those of the phase's first epoch,
    so that the same weights get the same statistics whenever they are asked for.
    """
    norms = [
        module
        for name, module in made.named_modules()
        if isinstance(module, _KEEPERS)
        and module.track_running_stats
        and not stays_in_eval(trained.get_submodule(name))
    ]
    if not norms:
        return
    fabric, was_training, momenta = phase.run.fabric, made.training, [norm.momentum for norm in norms]
    made.eval()
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None  # every batch counts alike
    batches = phase.data.train.batches(phase.epochs_before, rank=fabric.global_rank, world=fabric.world_size)
    with torch.no_grad(), fabric.autocast():
        for images, _ in islice(batches, phase.batches_per_epoch):
            made(fabric.to_device(images))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    made.train(was_training)
