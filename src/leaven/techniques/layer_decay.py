"""Learning rates that fall from the head to the stem."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim import Optimizer

from leaven.runtime.model.freezing import parameters_under


class LayerDecay:
    """Multiplies the rate of every stage by `factor` for each stage that comes after it."""

    def __init__(self, model: nn.Module, stages: Sequence[Sequence[str]], factor: float = 0.75) -> None:
        self.model = model
        self.stages = stages
        self.factor = factor

    def on_optimizer(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's groups by stage.

        The head comes first: its rate is the one that is recorded.
        """
        later: dict[Tensor, int] = {}  # for each weight, how many stages come after its own
        for number, stage in enumerate(reversed(self.stages)):
            later |= dict.fromkeys(parameters_under(self.model, stage, with_adapters=True), number)
        divided = []
        for group in optimizer.param_groups:
            for number in sorted({later.get(weight, 0) for weight in group["params"]}):
                weights = [weight for weight in group["params"] if later.get(weight, 0) == number]
                divided.append({**group, "params": weights, "lr": group["lr"] * self.factor**number})
        optimizer.param_groups[:] = divided
