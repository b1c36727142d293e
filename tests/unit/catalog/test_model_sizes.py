"""How many parameters timm's models have is kept in a file, since building all of them takes minutes."""

import json
import warnings

import pytest
import timm
import torch
from tests.lang.sections import IS_BLESSING

from leaven.catalog import card_facts


def counted(name: str) -> int:
    warnings.simplefilter("ignore")
    with torch.device("meta"):
        model = timm.create_model(name)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.skipif(not IS_BLESSING, reason="counts those of models that are new in timm, which takes a while")
def test_new_models_are_counted() -> None:
    known = {**card_facts.sizes_of_timm()}
    known |= {name: counted(name) for name in timm.list_models() if name not in known}
    lines = ",\n".join(f"{json.dumps(name)}: {known[name]}" for name in sorted(known))
    card_facts.SIZES_OF_TIMM.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "tf_efficientnet_lite0"])
def test_the_numbers_are_those_of_the_models(name: str) -> None:
    assert card_facts.sizes_of_timm()[name] == counted(name)
