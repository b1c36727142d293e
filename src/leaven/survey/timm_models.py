"""timm's models: their real arguments and the pretrained configurations.

Weights are never loaded.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import timm
from timm.models import _registry as registry
from timm.models._pretrained import PretrainedCfg

from leaven.catalog.traits import ModelTraits, as_tuples
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile, differences
from leaven.survey.construction import add_differences, constructor_signature, swallowed, watch
from leaven.survey.docstring import first_sentence
from leaven.survey.signature import Signature

# What Leaven or timm's factory passes; recipes have Leaven's own arguments for these.
_SUPPLIED = frozenset(
    {"pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "pretrained_strict", "checkpoint_path", "cache_dir"}
    | {"num_classes", "weights", "progress", "features_only", "out_indices", "feature_cls", "kwargs_filter"}
    | {"scriptable", "exportable", "no_jit", "device", "dtype", "head", "use_naflex"}
)
_PUBLISHED = ("input_size", "mean", "std", "interpolation", "license")


def survey(cards: CardFile) -> None:
    """Adds every timm model."""
    renamed = registry.get_deprecated_models()
    for name in cards.counted(timm.list_models()):
        entry = timm.model_entrypoint(name)
        summary, traits = first_sentence(entry.__doc__), pretrained_traits(name)
        card = cards.add(
            f"timm.{name}", "timm.create_model", Signature(), spellings=(name,), summary=summary, traits=traits
        )
        _add_signature(cards, card, entry)
    cards.renamed.update({old: f"timm.{new}" for old, new in renamed.items() if new})


def _add_signature(cards: CardFile, card: dict[str, Any], entry: Callable[..., Any]) -> None:
    """Refers to the signature that all models of a class share, and adds the differences of this model."""
    construction = watch(entry, pretrained=False)
    if construction is None:
        card["open_ended"] = True
        return
    signature = constructor_signature(construction)
    taken = swallowed(entry, _popped_names(entry.__module__) - signature.names(), pretrained=False)
    signature.parameters += [{"name": name, "type": "any"} for name in sorted(taken)]
    signature = signature.without(_SUPPLIED).as_options()  # timm.create_model takes them by name only
    card["signature"] = cards.share(signature.parameters)
    card.setdefault("summary", first_sentence(construction.class_.__doc__))
    if signature.open_ended:
        card["open_ended"] = True
    add_differences(card, construction, signature)


_POP = re.compile(r"""kwargs\.pop\(\s*['"](\w+)['"]""")


@functools.cache
def _popped_names(module: str) -> set[str]:
    """Names that the entry points of a module take out of `**kwargs` before the constructor sees them."""
    source = inspect.getsource(sys.modules[module])
    if "resolve_bn_args" in source:
        source += "kwargs.pop('bn_momentum') kwargs.pop('bn_eps')"
    return set(_POP.findall(source)) - _SUPPLIED


def pretrained_traits(name: str) -> ModelTraits:
    """The default configuration's traits, and under `weights` what each tag changes."""
    configurations: Any = registry._model_default_cfgs.get(name)
    if configurations is None:
        return ModelTraits(timm_name=name, has_weights=False)
    default = _traits(name, configurations.default)
    tagged = {tag: _traits(name, configurations.cfgs[tag]) for tag in configurations.tags}
    return default._replace(weights={tag: differences(default, traits) for tag, traits in tagged.items()})


def _traits(name: str, configuration: PretrainedCfg) -> ModelTraits:
    published = {field: getattr(configuration, field, None) for field in _PUBLISHED}
    published["crop_fraction"] = getattr(configuration, "crop_pct", None)
    return ModelTraits(
        timm_name=name,
        classes=configuration.num_classes,
        has_weights=bool(configuration.has_weights),
        has_fixed_input_size=bool(configuration.fixed_input_size),
        is_squashed=configuration.crop_mode == "squash",
        **{field: as_tuples(signatures.plain(value)) for field, value in published.items() if value is not None},
    )
