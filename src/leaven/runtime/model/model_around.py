"""A module around a model, for what a program does with a model in sight while nothing of the model is replaced."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from torch import nn


class ModelAround(nn.Module):
    """A module around a model, with the names, the attributes and the state of the model inside. What is set on it is
    set there, but for its own attributes."""

    _own: ClassVar = frozenset({"module", "training"})
    module: nn.Module

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own:
            super().__setattr__(name, value)
        else:
            setattr(self.module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.module, name)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.named_modules(*args, **kwargs)

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        return self.module.named_children()

    def get_submodule(self, target: str) -> nn.Module:
        return self.module.get_submodule(target)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """What a module around this one loads has the names of the model inside, too."""
        for name in [name for name in state_dict if name.startswith(prefix)]:
            state_dict[f"{prefix}module.{name.removeprefix(prefix)}"] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.module._apply(*args, **kwargs)
        return self

    def train(self, mode: bool = True) -> Self:
        self.module.train(mode)
        self.training = mode
        return self


def inside(model: nn.Module) -> nn.Module:
    """The model in all modules around it; a model that has none around it itself."""
    while isinstance(model, ModelAround):
        model = model.module
    return model
