"""Head, stem and stages of a model of the transformers library, by the structure that all of them share."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.model.text import from_configuration
from leaven.survey.model_parts import has_weights

LENGTH = 32  # of the texts in a trial, in tokens


def build(request: Mapping[str, Any]) -> nn.Module:
    """The model that a configuration describes, for classifying texts."""
    settings = {**request["text_config"], **request.get("arguments", {})}
    return from_configuration(settings, request.get("pooling", ""), known=request.get("arguments", {}))


def inputs(samples: int) -> dict[str, Tensor]:
    """Some texts on the meta device, as a model takes them."""
    ids = torch.zeros((samples, LENGTH), dtype=torch.int64, device="meta")
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def stem(model: nn.Module) -> list[str]:
    """The embeddings."""
    base = str(getattr(model, "base_model_prefix", ""))
    children = dict(model.named_modules())[base].named_children()
    return [f"{base}.{path}" for path, child in children if "embed" in path.lower() and has_weights(child)]


def stages(model: nn.Module) -> list[list[str]]:
    """The layers of the longest module list, each a stage."""
    rows = [(path, module) for path, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    path, longest = max(rows, key=lambda row: len(row[1]), default=("", nn.ModuleList()))
    return [[f"{path}.{number}"] for number in range(len(longest))]
