"""Which settings of a configuration are used that came with a model: those that say what the model is made of.

The rest is the library's and the user's to decide: which code computes attention (the library would fetch a kernel that
a configuration names), how weights are quantized, what a model returns besides its logits, where its files are.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


def architecture(kind: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a class of configurations has for its architecture; the others are left out."""
    from transformers import PretrainedConfig

    ours = _names(PretrainedConfig) - {"problem_type", "is_encoder_decoder"}
    known = _names(kind) | kind.attribute_map.keys()
    names = {name for name in known - ours if not name.startswith("_")} | {"num_labels"}
    found = {name: value for name, value in settings.items() if name in names}
    for name, parts in kind.sub_configs_defaults.items():
        if isinstance(part := found.get(name), dict):
            found[name] = _part(parts, part)
    return found


def _names(kind: Any) -> set[str]:
    """All that a class of configurations has: its fields, and what is computed from them."""
    return {field.name for field in dataclasses.fields(kind)} | set(kind().to_dict())


def _part(parts: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the configuration of a part of a model."""
    from transformers import PretrainedConfig

    name = settings.get("model_type", parts.model_type)
    kind = parts.config_class if issubclass(parts.config_class, PretrainedConfig) else parts.get_config_class(name)
    return {**architecture(kind, settings), "model_type": name}
