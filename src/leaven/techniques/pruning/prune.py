"""Pruning: the least important channels or weights are taken out, before a phase or little by little."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import NotCopied
from leaven.techniques.pruning.channels import Structured, channels_of
from leaven.techniques.pruning.cost import channel_table, cost_of, cost_table, cost_title
from leaven.techniques.pruning.report import report_channels
from leaven.techniques.pruning.weights import MaskedLayer, Unstructured, mask_layers, sparsity_summary

if TYPE_CHECKING:
    from leaven.runtime.data.batches import Data
    from leaven.runtime.run.phase import Phase
    from leaven.runtime.run.run import Run


class Prune:
    """Prunes so many percent, at once or (individual weights) over several epochs, and reports the result."""

    def __init__(
        self,
        run: "Run",
        data: "Data",
        method: Structured | Unstructured,
        *,
        percent: float,
        on: Sequence[str] | None = None,
        over_epochs: int | None = None,
    ) -> None:
        if over_epochs is not None and isinstance(method, Structured):
            raise Failure(
                "whole channels are taken out at once", "write several phases, each with a `prune` of its own"
            )
        self.run = run
        self.data = data
        self.method = method
        self.share = percent / 100
        self.on = on
        self.over_epochs = over_epochs
        self.layers: list[MaskedLayer] = []

    def on_model(self, model: nn.Module) -> None:
        if isinstance(self.method, Unstructured):
            self.layers = mask_layers(model, self.on, self.run.seed)
            if self.over_epochs is None:
                self._grow(self.share)
            return
        try:
            self._cut(self.method, model)
        except NotCopied as problem:
            raise Failure(
                f"channels are found on a copy of the model: {problem}",
                "prune individual weights instead: `prune unstructured(), amount=…`",
            ) from None

    def _cut(self, method: Structured, model: nn.Module) -> None:
        """Take whole channels out, and report the result."""
        example = self._example(model)
        before, had = cost_of(model, example), channels_of(model)
        cut = method.cut(model, example, self.share, self.on, self.data, self.run.seed)
        after, has = cost_of(model, example), channels_of(model)
        costs = cost_table(before, after, has_time=not self.run.is_quick)
        text = f"{cut}\n{costs}\n\n{channel_table(had, has)}\n"
        report_channels(self.run, text, cost_title(before, after), had, has)

    def before_epoch(self, phase: "Phase") -> None:
        """Prune further, up to epoch `over_epochs`; earlier epochs can't be the best."""
        if self.over_epochs is None:
            return
        epochs = min(self.over_epochs, phase.total_epochs)
        left = max(0.0, 1 - (phase.epoch + 1) / epochs)
        phase.can_be_best = left == 0
        if phase.batch == 0 and phase.epoch < epochs:  # in the middle of an epoch, a run goes on with what it had
            self._grow(self.share * (1 - left**3))

    def _grow(self, share: float) -> None:
        assert isinstance(self.method, Unstructured)
        for layer in self.layers:
            self.method.take_out(layer, share)
        self.run.print(sparsity_summary(self.layers))

    def _example(self, model: nn.Module) -> Tensor:
        """An image as the model sees it."""
        weight = next(model.parameters())
        transform, example = self.data.eval_transform, self.data.example
        made = example if transform is None else transform(example)
        return torch.as_tensor(made).as_subclass(Tensor)[None].to(weight.device, weight.dtype)
