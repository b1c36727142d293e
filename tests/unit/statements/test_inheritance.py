"""Recipes that extend each other, as files in a folder."""

from pathlib import Path

import leaven
from leaven.recipe.recipe import Recipe


def recipe(folder: Path, name: str, **files: str) -> Recipe:
    for stem, text in files.items():
        (folder / f"{stem}.leaven").write_text(text)
    checked = leaven.check(folder / f"{name}.leaven")
    assert checked.recipe is not None, checked.diagnostics
    return checked.recipe


def test_a_base_that_two_bases_share_does_not_undo_what_one_of_them_changed(tmp_path: Path) -> None:
    found = recipe(
        tmp_path,
        "top",
        shared="model resnet18()\ndata digits()\noptimizer sgd(lr=0.1)\n",
        gentle='extends "shared.leaven"\noptimizer adamw(lr=1e-3)\n',
        short='extends "shared.leaven"\ntrain epochs=3\n',
        top='extends "gentle.leaven"\nextends "short.leaven"\n',
    )
    (phase,) = found.phases
    assert phase.optimizer.invocation.card.name == "torch.AdamW"
    assert phase.epochs.value.amount == 3


def test_bases_that_extend_each_other_many_times_over_are_read_once(tmp_path: Path) -> None:
    """Thirty files, each of which extends the next one twice: as paths to the last one, a thousand million."""
    files = {f"r{n}": f'extends "r{n + 1}.leaven"\n' * 2 for n in range(30)}
    found = recipe(tmp_path, "r0", **files, r30="model resnet18()\ndata digits()\n")
    assert found.data.outputs == 10


def test_a_change_in_one_phase_stays_there(tmp_path: Path) -> None:
    phases = "".join(f'phase "p{n}", epochs=2 {{ change optimizer, lr={n / 100} }}\n' for n in range(1, 60))
    text = "model resnet18()\ndata digits()\noptimizer adamw(lr=1e-3)\n" + phases
    for _ in range(3):
        found = recipe(tmp_path, "many", many=text)
        rates = [phase.optimizer.invocation.value("lr") for phase in found.phases]
        assert rates == [n / 100 for n in range(1, 60)]


def test_drop_leaves_statements_beside_it(tmp_path: Path) -> None:
    base = "model resnet18()\ndata digits()\nmixup 0.2\n"
    found = recipe(tmp_path, "top", base=base, top='extends "base.leaven"\ndrop mixup\nmixup 0.4\n')
    assert [use.invocation.value("alpha") for use in found.phases[0].techniques] == [0.4]
    found = recipe(tmp_path, "one", one=base + 'phase "a", epochs=2 {\n    drop mixup\n    mixup 0.4\n}\n')
    assert [use.invocation.value("alpha") for use in found.phases[0].techniques] == [0.4]
