"""Heads that are solved: a linear layer on frozen features, whose best weights are found without a training loop."""
