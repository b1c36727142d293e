"""Cards while the survey collects them."""

import json
import tomllib
from pathlib import Path

from leaven import survey
from leaven.catalog.card import Parameter
from leaven.survey.card_file import CardFile
from leaven.survey.signature import Signature


def test_parameters_get_the_bounds_of_their_names_in_that_kind_of_card(tmp_path: Path) -> None:
    betas = {"name": "betas", "type": "list", "default": [0.9, 0.98, 0.99]}
    for kind in ("optimizer", "loss"):
        cards = CardFile(kind)
        cards.add("torch.Some", "torch.Some", Signature([betas, {"name": "rho", "type": "float"}]), spellings=("some",))
        cards.write(tmp_path)
    optimizer, loss = (
        json.loads((tmp_path / f"{kind}.jsonl").read_text("utf-8").splitlines()[2])["parameters"]
        for kind in ("optimizer", "loss")
    )
    assert optimizer[0] == betas | {"minimum": 0, "below": 1, "items": "float", "length": 3}
    assert optimizer[1:] == loss[1:]
    assert loss[0] == betas


def test_bounds_are_fields_of_parameters() -> None:
    bounds = tomllib.loads((Path(survey.__file__).with_name("bounds.toml")).read_text("utf-8"))
    keys = {key for names in bounds.values() for one in names.values() for key in one}
    assert keys <= Parameter.__annotations__.keys()
