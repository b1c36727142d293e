"""Head, stem and stages of a model of the transformers library, by the structure that all of them share."""

from torch import nn

from leaven.survey.model_parts import has_weights


def build(folder: str) -> nn.Module:
    """The model that a folder's configuration describes, for classifying sequences; no code in the folder is run."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    made: nn.Module = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    return made


def head(model: nn.Module) -> list[str]:
    """The modules outside the base model."""
    return [path for path, child in model.named_children() if path != _base(model) and has_weights(child)]


def stem(model: nn.Module) -> list[str]:
    """The embeddings."""
    base = _base(model)
    children = dict(model.named_modules())[base].named_children()
    return [f"{base}.{path}" for path, child in children if "embed" in path.lower() and has_weights(child)]


def stages(model: nn.Module) -> list[list[str]]:
    """The layers of the longest module list, each a stage."""
    rows = [(path, module) for path, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    path, longest = max(rows, key=lambda row: len(row[1]), default=("", nn.ModuleList()))
    return [[f"{path}.{number}"] for number in range(len(longest))]


def _base(model: nn.Module) -> str:
    return str(getattr(model, "base_model_prefix", ""))
