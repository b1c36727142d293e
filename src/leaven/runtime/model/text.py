"""Models of the transformers library that classify texts: they take what a tokenizer makes of a batch, and return
logits.

Decides how such a model is built from its folder, its name on the hub or an installed package, and which models are
refused. Nothing here runs code that comes with a model.
"""

import dataclasses
import inspect
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from leaven.formats.text_models import Pooling, is_generative, labels_of
from leaven.runtime.downloads import from_hub
from leaven.runtime.failures import Failure
from leaven.runtime.model.builder import loads_weights
from leaven.runtime.model.weights import packaged_files

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_NOT_KEPT = (  # of a configuration
    *("_name_or_path", "transformers_version", "auto_map", "architectures", "id2label", "label2id", "dtype"),
)


def text_model(
    source: str | os.PathLike[str],
    num_labels: int,
    *,
    pretrained: bool = False,
    pooling: Pooling = "",
    keep_head: bool = False,
    **settings: Any,
) -> nn.Module:
    """A model for texts with so many outputs: `model(inputs)` takes what a `Tokenizer` makes, and returns logits.

    `source` is a folder or a name on the hub; its tokenizer is there too. With `pooling="mean"`, the head gets the
    mean of what the model says about each token, in place of what the model itself has for whole texts. `settings` are
    those of the model's configuration.
    """
    place = os.fspath(source)
    config = read_configuration(place)
    if is_generative({"architectures": config.architectures, "model_type": config.model_type}):
        kinds = ", ".join(config.architectures or [config.model_type])
        raise Failure(
            f"{place} generates text ({kinds}); it is not a classifier",
            "choose an encoder, such as bert-base-cased or roberta-base",
            about="model",
        )
    if keep_head and len(text_labels(place)) != num_labels:
        raise Failure(f"the head of {place} has {config.num_labels} outputs, but the data needs {num_labels}")
    config.num_labels = num_labels
    for name, value in settings.items():
        if not hasattr(config, name):
            raise Failure(f"the configuration of {place} has no `{name}`", about="model")
        setattr(config, name, value)
    if pretrained and loads_weights():
        model = _filled(place, config)
        if not keep_head:
            _initialise_head(model)
    else:
        model = _from_config(config)
    return _taking_batches(model, pooling)


def from_configuration(settings: Mapping[str, Any], pooling: Pooling = "", known: Collection[str] = ()) -> nn.Module:
    """The model that a configuration describes, as data, without weights; the settings in `known` must be its own."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        kind: Any = CONFIG_MAPPING[str(settings["model_type"])]
        config = kind(**architecture(kind, settings))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise Failure(f"the model's configuration can't be read: {problem}") from None
    plain = type(config)()
    if unknown := [name for name in known if not hasattr(plain, name)]:
        raise Failure(f"the configuration of {config.model_type} has no `{unknown[0]}`")
    return _taking_batches(_from_config(config), pooling)


def published_model(source: str, settings: Mapping[str, Any], pooling: Pooling) -> nn.Module:
    """The model that a configuration describes, as data, with weights of a folder or of the hub and a new head."""
    given = architecture(type(read_configuration(source)), settings)
    return text_model(source, int(given.pop("num_labels")), pretrained=True, pooling=pooling, **given)


def text_labels(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """What the outputs of a model's trained head stand for; a failure where it has none."""
    place = os.fspath(source)
    found = labels_of(read_configuration(place).to_dict())
    if not found:
        raise Failure(f"{place} has no trained head to keep", "remove `head=keep` to get a new head", about="model")
    return found


@cache
def packaged_folder(package: str) -> str:
    """The folder of an installed package that has a model of the transformers library in it."""
    found = packaged_files(package, "model", lambda file: file.name == "config.json" and len(file.parts) > 1)
    return str(min(found, key=lambda file: len(file.parts)).parent)


def read_configuration(source: str) -> "PretrainedConfig":
    """What a model's folder, or the hub, says about its architecture."""
    from transformers import AutoConfig

    found: PretrainedConfig = from_files(AutoConfig, source, "model")
    return found


def from_files(auto: Any, source: str, what: str, **settings: Any) -> Any:
    """What a class of the library makes of a model's files, without code that comes with them."""
    with _files_of_model(source, what):
        return auto.from_pretrained(source, trust_remote_code=False, local_files_only=os.path.isdir(source), **settings)


@contextmanager
def _files_of_model(source: str, what: str) -> Iterator[None]:
    """While the library reads a model's files: what is not there, or can't be downloaded, is a failure that says so."""
    from transformers.utils import logging as its_logging

    logging: Any = its_logging
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if os.path.isdir(source):
        logging.disable_progress_bar()
    try:
        with nullcontext() if os.path.isdir(source) else from_hub(source):
            yield
    except Failure:
        raise _not_found(source, what) from None
    except (OSError, ValueError, KeyError) as problem:
        if not os.path.isdir(source):
            raise _not_found(source, what) from None
        reason = " ".join(str(problem).split()).partition(". ")[0]
        raise Failure(f"the {what} in {source} can't be read: {reason}", about="model") from None
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def _not_found(source: str, what: str) -> Failure:
    return Failure(
        f"the {what} {source} is not a folder here, and could not be downloaded",
        "without a network connection, give the path of its folder, or use `minilm(pretrained=true)`",
        about="model",
    )


# -- building


def _auto() -> Any:
    """The class of the library's that makes all models, by their configurations."""
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification


def _filled(source: str, config: "PretrainedConfig") -> nn.Module:
    model: nn.Module = from_files(_auto(), source, "model", config=config, ignore_mismatched_sizes=True)
    return model.float().train()  # the library returns it in evaluation mode, with its dropout off


def _from_config(config: "PretrainedConfig") -> nn.Module:
    if type(config) not in _auto()._model_mapping:
        raise Failure(f"transformers has no {config.model_type} that classifies texts", about="model")
    made: nn.Module = _auto().from_config(config, trust_remote_code=False)
    return made


def head_of(model: nn.Module) -> list[str]:
    """The modules outside of the base model that have parameters."""
    prefix = str(getattr(model, "base_model_prefix", ""))
    return [name for name, child in model.named_children() if name != prefix and any(True for _ in child.parameters())]


def _initialise_head(model: Any) -> None:
    """A head as the library initialises it: the file may have one of the same size, for other classes."""
    for name in head_of(model):
        for module in model.get_submodule(name).modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=getattr(model.config, "initializer_range", 0.02))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def _taking_batches(model: Any, pooling: Pooling) -> nn.Module:
    """The model as the loop calls it. It stays the library's own class but for how it is called."""
    if pooling == "mean":
        model.base_model.pooler = None  # what it says about whole texts is not used
    kind: Any = type(model)
    model.__class__ = _batch_class(kind, pooling)
    built: nn.Module = model
    return built


def configuration_of(model: Any) -> dict[str, Any]:
    """The configuration of a model of the library's, as `from_configuration` takes it."""
    config = model.config
    told = json.loads(config.to_json_string(use_diff=True))
    settings = {name: value for name, value in told.items() if name not in _NOT_KEPT}
    return {**settings, "model_type": config.model_type, "num_labels": config.num_labels}


@cache
def _batch_class(kind: Any, pooling: Pooling) -> type[nn.Module]:
    """A class of the library's whose models take a batch and return logits."""

    def forward(self: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        logits: Tensor = kind.forward(self, **_named(self, inputs)).logits
        return logits

    def forward_mean(self: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        hidden = self.base_model(**_named(self, inputs))[0]
        counted = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * counted).sum(1) / counted.sum(1).clamp(min=1)
        logits: Tensor = self.classifier(self.dropout(pooled))
        return logits

    made = forward_mean if pooling == "mean" else forward
    parameters = inspect.signature(kind.forward).parameters
    takes = tuple(name for name in ("input_ids", "attention_mask", "token_type_ids") if name in parameters)
    return type(kind.__name__, (kind,), {"forward": made, "__module__": kind.__module__, "_takes": takes})


def _named(model: Any, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a batch that a model takes. While torch.fx traces it, nobody knows which are there."""
    if isinstance(inputs, Mapping):
        return {name: inputs[name] for name in model._takes if name in inputs}
    has_types = getattr(model.config, "type_vocab_size", 0) > 1
    return {name: inputs[name] for name in model._takes if has_types or name != "token_type_ids"}


# -- the settings of a configuration that came with a model


def architecture(kind: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a class of configurations has for its architecture.

    The rest is the library's and the user's to decide: which code computes attention (the library would fetch a kernel
    that a configuration names), how weights are quantized, what a model returns besides its logits, where files are.
    """
    from transformers import PretrainedConfig

    ours = _fields(PretrainedConfig) - {"problem_type", "is_encoder_decoder"}
    known = _fields(kind) | kind.attribute_map.keys()
    names = {name for name in known - ours if not name.startswith("_")} | {"num_labels"}
    found = {name: value for name, value in settings.items() if name in names}
    for name, parts in kind.sub_configs_defaults.items():
        if isinstance(part := found.get(name), dict):
            found[name] = _part(parts, part)
    return found


def _fields(kind: Any) -> set[str]:
    """All that a class of configurations has: its fields, and what is computed from them."""
    return {field.name for field in dataclasses.fields(kind)} | set(kind().to_dict())


def _part(parts: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the configuration of a part of a model."""
    from transformers import PretrainedConfig

    name = settings.get("model_type", parts.model_type)
    kind = parts.config_class if issubclass(parts.config_class, PretrainedConfig) else parts.get_config_class(name)
    return {**architecture(kind, settings), "model_type": name}
