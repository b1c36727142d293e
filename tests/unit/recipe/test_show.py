"""`leaven show` credits each value to where it was said, and what it prints leads to the same files."""

import re
from pathlib import Path

import pytest

import leaven
from leaven.language.highlight import highlight
from leaven.language.source import Source
from leaven.recipe import show
from leaven.recipe.recipe import Recipe
from leaven.statements.options import Options
from leaven.terminal.colors import painter

EXAMPLES = Path(__file__).parents[3] / "examples"
TWO_PHASES = """model resnet18(pretrained=true)
data digits()
optimizer adamw(lr=1e-3)
phase "head", epochs=2 { freeze all - head }
phase "fine-tune", epochs=8 { optimizer sgd(lr=1e-2) }
"""


def shown(text: str, options: Options | None = None) -> list[str]:
    return leaven.show(Source("recipe.leaven", text), options).splitlines()


def comment(lines: list[str], start: str) -> str:
    """What stands behind the first line that begins so."""
    return next(line for line in lines if line.strip().startswith(start)).partition("# ")[2]


def test_a_line_without_shown_settings_is_not_credited() -> None:
    lines = shown("model resnet18()\ndata digits()\ntrain epochs=3\n")
    assert comment(lines, "train batch=32") == "default"
    assert comment(lines, 'phase "train", epochs=3') == "default: one phase with everything, epochs from line 3"


def test_an_optimizer_without_arguments_has_those_of_its_library() -> None:
    lines = shown("model resnet18()\ndata digits()\noptimizer nadam\n")
    assert comment(lines, "optimizer torch.NAdam(") == "line 3"
    assert comment(lines, "lr=0.002") == "default of torch"


def test_settings_of_an_option_are_credited_to_it() -> None:
    options = Options(settings=('phase."fine-tune".epochs=3', "phase.head.optimizer.lr=5e-3", "train.batch=8"))
    lines = shown(TWO_PHASES, options)
    assert comment(lines, 'phase "fine-tune", epochs=3') == "line 5, epochs from option --set"
    assert comment(lines, 'phase "head", epochs=2') == "line 4"
    assert comment(lines, "lr=0.005") == "option --set"
    assert comment(lines, "train batch=8") == "option --set, the rest by default"


def test_a_setting_reaches_the_phase_that_it_names_and_no_other() -> None:
    recipe = checked(Source("recipe.leaven", TWO_PHASES), Options(settings=("phase.head.optimizer.lr=5e-3",)))
    rates = [phase.optimizer.invocation.value("lr") for phase in recipe.phases]
    assert rates == [5e-3, 1e-2]
    assert recipe.phases[0].optimizer.invocation.card.name == "torch.AdamW"  # that of the top, not the default


def test_a_checkpoint_takes_the_place_of_the_published_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("last.pth").touch()
    recipe = checked(Source("recipe.leaven", TWO_PHASES), Options(checkpoint="last.pth"))
    assert not recipe.model.pretrained
    assert recipe.model.weights is not None
    assert recipe.model.weights.text == "last.pth"


def test_shown_paths_lead_to_the_same_files_from_the_recipes_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("base", "mine"):
        Path(name).mkdir()
    Path("last.pth").touch()
    Path("base/net.py").write_text("def trick(x: float = 1.0): ...\n")
    Path("base/first.leaven").write_text('import "net.py" as net\nmodel resnet18()\ndata digits()\noutput "there"\n')
    Path("mine/second.leaven").write_text('extends "../base/first.leaven"\n')
    options = Options(checkpoint="last.pth")
    text = leaven.show("mine/second.leaven", options)
    assert 'weights="../last.pth"' in text
    assert 'output "../base/there"' in text
    assert 'import "../base/net.py" as net' in text
    Path("mine/shown.leaven").write_text(text)
    again, first = checked(Path("mine/shown.leaven")), checked(Path("mine/second.leaven"), options)
    assert again.model == first.model
    assert again.output == first.output
    assert again.modules == first.modules


def checked(recipe: Path | Source, options: Options | None = None) -> Recipe:
    result = leaven.check(recipe, options)
    assert result.recipe is not None, result.diagnostics
    return result.recipe


def test_layers_may_be_counted_by_an_arg_that_has_no_default() -> None:
    text = "arg n: int\nmodel resnet18()\ndata digits()\nfreeze all - last(n)\nfreeze stages(n)\n"
    lines = shown(text)
    assert any(line.strip().startswith("freeze all - last(n), norms=frozen") for line in lines)
    assert any(line.strip().startswith("freeze stages(n)") for line in lines)


def test_a_phase_without_training_shows_what_the_check_accepts() -> None:
    """Statements at the top reach it too, but nothing happens at an epoch that it doesn't have."""
    recipe = f"unfreeze backbone, at=1 epoch\n{TWO_PHASES.replace('epochs=2', 'epochs=0')}"
    again = "\n".join(line.partition("  #")[0] for line in shown(recipe))
    assert "unfreeze backbone, at=1 epoch" in again
    assert [line.partition("  #")[0] for line in shown(again)] == again.splitlines()


def test_the_metric_of_one_class_shows_what_the_check_accepts() -> None:
    lines = shown('model resnet18()\ndata digits()\nmetrics f1(of="7"), recall()\n')
    assert next(line for line in lines if line.startswith("metrics")).startswith(
        'metrics f1(of="7"), recall(average=macro) '
    )
    assert leaven.check(Source("recipe.leaven", "\n".join(lines))).recipe is not None


def test_texts_of_a_table_show_what_the_check_accepts(tmp_path: Path) -> None:
    """Runs record what is shown, and are evaluated on it: the default for images is not that of texts."""
    rows = "".join(f'{{"text": "number {at}", "kind": "{"ab"[at % 2]}"}}\n' for at in range(20))
    (tmp_path / "t.jsonl").write_text(rows)
    text = 'model minilm(pretrained=true)\ndata jsonl("t.jsonl", text="text", label="kind")\n'
    again = leaven.show(Source("recipe.leaven", text, tmp_path))
    assert 'data jsonl("t.jsonl", text="text"' in again
    checked = leaven.check(Source("recipe.leaven", again, tmp_path))
    assert checked.recipe is not None, checked.diagnostics


def test_a_size_keeps_the_models_interpolation_and_share_of_the_image() -> None:
    for model, resized, interpolation in (("torchvision", 128, "bilinear"), ("timm", 117, "bicubic")):
        lines = "\n".join(shown(f'model {model}.resnet18()\ndata torchvision.Flowers102("flowers") {{ size 112 }}\n'))
        assert f"Resize({resized}, interpolation={interpolation}" in lines
        assert "CenterCrop(112)" in lines
        assert "RandomResizedCrop(112" in lines


class TestInATerminal:
    @pytest.mark.parametrize("width", [40, 60, 80, 120])
    @pytest.mark.parametrize("example", ["quickstart", "smaller", "from_scratch"])
    def test_it_fits_and_is_still_the_same_recipe(self, example: str, width: int) -> None:
        recipe = leaven.check(EXAMPLES / f"{example}.leaven").recipe
        assert recipe is not None
        plain, fitted = show.to_text(recipe), show.to_text(recipe, width)
        assert leaven.parse(Source("", fitted)).tree == leaven.parse(Source("", plain)).tree
        assert max(map(len, fitted.splitlines())) <= max(width, 55)  # a component with its first argument is not broken
        assert sorted(_words(fitted)) == sorted(_words(plain))

    def test_output_that_fits_the_terminal_is_the_same_as_in_a_file(self) -> None:
        recipe = leaven.check(EXAMPLES / "quickstart.leaven").recipe
        assert recipe is not None
        assert show.to_text(recipe, 180) == show.to_text(recipe)

    def test_colours_change_nothing_else(self) -> None:
        text = leaven.show(EXAMPLES / "smaller.leaven")
        assert highlight(text, painter(False)) == text
        colored = highlight(text, painter(True))
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == text
        assert "\x1b[1;34moptimizer\x1b[0m torch.AdamW(" in colored
        assert "        lr=\x1b[35m0.001\x1b[0m" in colored  # an argument is not a statement, though it begins a line


def _words(text: str) -> list[str]:
    return [word for word in text.split() if word != "#"]
