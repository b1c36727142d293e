"""Training on texts: what exists for images exists for texts, from a recipe to a prediction."""

from pathlib import Path

import pytest
from tests import at_work, tiny_bert

pytest.importorskip("transformers")
START = 'model transformers.auto("bert", pretrained=true)\ndata csv("reviews.csv", text="sentence", label="label")\n'
SHORT = "train epochs=2, batch=8\n"
LATER = 'phase "head", epochs=1 { freeze all - head }\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny BERT and a table of 60 reviews."""
    made = tmp_path_factory.mktemp("texts")
    tiny_bert.make(made / "bert")
    tiny_bert.write_csv(made / "reviews.csv")
    return made


def beside(folder: Path, made: Path) -> Path:
    """A new folder that has the same files."""
    made.mkdir(parents=True, exist_ok=True)
    for name in ("bert", "reviews.csv"):
        (made / name).symlink_to(folder / name)
    return made


TECHNIQUES = {
    "probe": "linear_probe\n" + SHORT,
    "solved": "linear_probe solver=lbfgs\n",
    "stored": "freeze all - head\ntrain epochs=3, batch=8, exact=false\n",
    "padded": "change data { tokenize max_length=24, padding=max_length }\nfreeze all - head\n" + SHORT,
    "depth": "freeze stem + stages(1)\nlayer_decay 0.8\nema 0.9\n" + SHORT,
    "first": "freeze first(50%)\nsam\n" + SHORT,
    "norms": "freeze all - (norms + head)\nlookahead\n" + SHORT,
    "lora": 'lora rank=2, on="*query" + "*value"\n' + SHORT,
    "dora": 'dora rank=2, on="*query"\n' + SHORT,
    "reinit": "reinit stages(3)\nswa\n" + SHORT,
    "soup": "l2_sp\nlogit_adjustment\nsoup\n" + SHORT,
    "phases": LATER + 'phase "all", epochs=1 { wise_ft }\n',
    "thaw": "thaw\ntrain epochs=4, batch=8\n",
    "student": 'change model, num_hidden_layers=1\ndistill teacher=transformers.auto("bert", pretrained=true), '
    "weight=0.5\n" + SHORT,
    "balanced": "change data { sampler balanced }\ntrain epochs=2, batch=8, accumulate=2, clip=1.0\n",
    "bf16": "train epochs=2, batch=8, precision=bf16\n",
    "measured": "train epochs=2, batch=auto, precision=auto\n",
}


@pytest.fixture(scope="module")
def ended_badly(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What programs said that did not end well, by the name of their technique."""
    top = tmp_path_factory.mktemp("techniques")
    programs = []
    for name, lines in TECHNIQUES.items():
        place = beside(folder, top / name)
        (place / "base.leaven").write_text(START, encoding="utf-8")
        programs.append(at_work.program(place, f'extends "base.leaven"\n{lines}'))
    ended = at_work.run_each(programs)
    assert all(list(file.parent.glob("runs/*/*/model.bundle")) for file in programs if file not in ended)
    return {file.parent.name: said for file, said in ended.items()}


@pytest.mark.parametrize("name", sorted(TECHNIQUES))
def test_a_technique_trains_on_texts(name: str, ended_badly: dict[str, str]) -> None:
    assert name not in ended_badly, ended_badly[name]
