"""The mean of the weights at the ends of the last epochs."""

from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from leaven.runtime.data.batches import Data
from leaven.runtime.run.batch_norm import update_batch_norm
from leaven.runtime.run.phase import Phase


class Swa:
    """Averages the weights of every epoch from `start` on, with a constant rate if `lr` gives one.

    The average is measured in place of the weights, with statistics gathered anew, and left in the model at the end.
    """

    def __init__(
        self, model: nn.Module, data: Data, optimizer: Optimizer, phase: Phase, start: int, *, lr: float | None = None
    ) -> None:
        self.average = AveragedModel(model)
        self.optimizer = optimizer
        self.phase = phase
        self.data = data
        self.start = min(start, phase.total_epochs - 1)  # there is an average even where the phase is cut short
        full = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        # of every group, where the first has `lr`; none where no rate is given
        self.rates = [] if lr is None else [lr * rate / full[0] if full[0] else lr for rate in full]

    @property
    def _is_on(self) -> bool:
        return self.phase.epoch >= self.start

    def before_epoch(self, phase: Phase) -> None:
        self._keep_rate()

    def after_step(self, model: nn.Module) -> None:
        self._keep_rate()
        if self._is_on and self.phase.ends_epoch:
            self.average.update_parameters(model)

    def _keep_rate(self) -> None:
        """Put the rate back to what it is to be, whatever the schedule has made of it."""
        if self._is_on:
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=False):
                group["lr"] = rate

    def model_for_eval(self, model: nn.Module) -> nn.Module:
        if not self._is_on:
            return model
        update_batch_norm(self.average.module, model, self.phase, self.data.train)
        return self.average.module

    def at_end(self, model: nn.Module) -> None:
        if self.average.n_averaged > 0:
            model.load_state_dict(self.average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)
