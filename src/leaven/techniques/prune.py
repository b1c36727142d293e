"""Taking the least important of a model out of it, before a phase or little by little."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.techniques.prune_channels import Structured
from leaven.techniques.prune_cost import cost_of, told_costs
from leaven.techniques.prune_weights import MaskedLayer, Unstructured, mask_layers, told_zeros

if TYPE_CHECKING:
    from leaven.runtime.batches import Data
    from leaven.runtime.phase import Phase
    from leaven.runtime.run import Run


class Prune:
    """Takes out `amount` percent, at once or, of single weights, over some epochs; tells what came of it."""

    def __init__(
        self,
        run: "Run",
        data: "Data",
        how: Structured | Unstructured,
        amount: float,
        on: Sequence[str] | None = None,
        over: int | None = None,
    ) -> None:
        if over is not None and isinstance(how, Structured):
            raise Failure(
                "whole channels are taken out at once", "write several phases, each with a `prune` of its own"
            )
        self.run = run
        self.data = data
        self.how = how
        self.share = amount / 100
        self.on = on
        self.over = over
        self.layers: list[MaskedLayer] = []

    def on_model(self, module: nn.Module) -> None:
        if isinstance(self.how, Unstructured):
            self.layers = mask_layers(module, self.on, self.run.seed)
            if self.over is None:
                self._grow(self.share)
            return
        example = self._example(module)
        before = cost_of(module, example)
        cut = self.how.cut(module, example, self.share, self.on, self.data, self.run.seed)
        self.run.tell(f"{cut}\n{told_costs(before, cost_of(module, example))}")

    def before_epoch(self, phase: "Phase") -> None:
        if self.over is None:
            return
        epochs = min(self.over, phase.total)
        left = max(0.0, 1 - (phase.epoch + 1) / epochs)
        phase.may_be_best = left == 0
        if phase.batch == 0 and phase.epoch < epochs:  # in the middle of an epoch, a run goes on with what it had
            self._grow(self.share * (1 - left**3))

    def _grow(self, share: float) -> None:
        assert isinstance(self.how, Unstructured)
        for layer in self.layers:
            self.how.take_out(layer, share)
        self.run.tell(told_zeros(self.layers))

    def _example(self, module: nn.Module) -> Tensor:
        """A picture as the model sees it."""
        weight = next(module.parameters())
        made = self.data.prepare(self.data.example) if self.data.prepare is not None else self.data.example
        return torch.as_tensor(made).as_subclass(Tensor)[None].to(weight.device, weight.dtype)
