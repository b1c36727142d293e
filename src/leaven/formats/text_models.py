"""What the configuration of a text model tells, as both halves read it: what it is for, what its outputs stand for, and
how long texts may be."""

from collections.abc import Mapping
from typing import Any, Literal

Pooling = Literal["", "mean"]  # of what a model says about tokens, in place of what it has for whole texts
_GENERATE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSeq2SeqLM", "WithLMHeadModel")
_ENCODERS = ("bert", "xlnet", "flaubert", "xlm", "transfo")  # whose older names end like those of generative models

_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "data2vec-text")


def is_generative(config: Mapping[str, Any]) -> bool:
    """Whether a model was trained to write text, not to read it."""
    architectures = config.get("architectures") or ()
    if not architectures or any(str(config.get("model_type", "")).startswith(each) for each in _ENCODERS):
        return False
    return all(str(name).endswith(_GENERATE) for name in architectures)


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The label of each output of a trained head, its number where it has no name; none without such a head."""
    if not any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ()):
        return ()
    told = {int(at): str(name) for at, name in (config.get("id2label") or {}).items()}
    count = len(told) or int(config.get("num_labels") or 2)
    names = [told.get(at, str(at)) for at in range(count)]
    return tuple(str(at) if name == f"LABEL_{at}" else name for at, name in enumerate(names))


def longest_input(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model can take; None where it takes any number, or does not say."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions <= 0:
        return None
    if config.get("model_type") in _POSITIONS_AFTER_PADDING:
        return positions - (config.get("pad_token_id") or 0) - 1
    return positions
