"""Recipes with mistakes of every kind: no exception escapes, and what Leaven promises of every recipe holds.

`LEAVEN_FUZZ_CASES` says how many (`make fuzz` sets 200,000), `LEAVEN_FUZZ_SEED` which ones. A failure names its case,
which is the same in every run with that seed, and shows the smallest recipe that was found to fail like it.
"""

import os
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fuzz import corpus
from tests.fuzz.models import Builds
from tests.fuzz.mutations import LINES, mutate
from tests.fuzz.promises import try_check, try_text
from tests.fuzz.reduction import reduce

from leaven.rules import inputs
from leaven.statements.options import Options

CASES = int(os.environ.get("LEAVEN_FUZZ_CASES", "5000"))
SEED = int(os.environ.get("LEAVEN_FUZZ_SEED", "0"))
FIRST = int(os.environ.get("LEAVEN_FUZZ_FIRST", "0"))  # to begin with a certain case
LAST = FIRST + CASES
FEW = 250  # cases in the first test, which `make test` runs
ROUND = 1000  # in each of the others
MOST_FAILURES = 5
BUILDS = 1  # models in each test beyond those of the corpus

NO_OPTIONS = Options()
SETTINGS = (
    "optimizer.lr=1e-4",
    "train.batch=2",
    "data.train.steps=resize(32)",
    "lr=3",
    "phase.epochs=x",
    "a.b.c=",
    "=",
)
MODELS = (None, None, "resnet18", "mine.Net()", "no_such_model", "resnet18(", "3", '"x"', "")
DATA = (None, None, "photos", "digits()", "no_such_folder/", "folder(", "3", "\udc80/x", "")
ARGS = ({}, {}, {"lr": "1e-2"}, {"lr": "x"}, {"size": "32 epochs"}, {"no_such": "1"}, {"weights": "weights.pth"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of all recipes. One stands in it, so that paths in options lead where those in recipes lead."""
    folder = tmp_path_factory.mktemp("fuzz")
    corpus.fill(folder)
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def builds(folder: Path) -> Iterator[Builds]:
    """All models of the corpus are built before anything is mutated; sizes of pictures are tried by other tests."""
    builds = Builds(BUILDS)
    for text in corpus.recipes():
        builds.allow(try_text(text, folder).tree, is_known=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "takes_size", lambda _facts, _size: True)  # each would need a process of its own
        yield builds


def test_the_corpus_itself_has_no_errors(folder: Path) -> None:
    for text in dict.fromkeys(corpus.recipes()):
        checked = try_check(text, folder, NO_OPTIONS)
        assert checked.recipe is not None, (text, checked.diagnostics)


def rounds() -> Iterator[Any]:
    """The numbers of the cases of each test."""
    yield pytest.param(range(FIRST, min(FIRST + FEW, LAST)), id=str(FIRST))
    for first in range(FIRST + FEW, LAST, ROUND):
        yield pytest.param(range(first, min(first + ROUND, LAST)), id=str(first), marks=pytest.mark.slow)


@pytest.mark.parametrize("numbers", list(rounds()))
def test_mutated_recipes(numbers: range, folder: Path, builds: Builds) -> None:
    seen: Counter[str] = Counter()
    failures: dict[str, str] = {}
    builds = deepcopy(builds)
    for number in numbers:
        text, options = case(number)
        try:
            seen[attempt(text, options, folder, builds)] += 1
        except Exception as failure:
            if signature(failure) not in failures:
                failures[signature(failure)] = describe(number, text, options, failure, folder)
            if len(failures) == MOST_FAILURES:
                break
    assert not failures, "\n\n".join(failures.values())
    assert min(seen["unreadable"], seen["wrong"], seen["right"]) > len(numbers) // 20, seen  # or much was not tried


def case(number: int) -> tuple[str, Options]:
    """A mutated recipe and perhaps options, the same for the same number."""
    random = Random(f"{SEED}/{number}")
    recipes = corpus.recipes()
    text = mutate(random.choice(recipes), random.choice(recipes), random)
    if random.random() > 0.15:
        return text, NO_OPTIONS
    settings = [mutate(random.choice(SETTINGS), "", random) for _ in range(random.randint(0, 2))]
    options = Options(
        args=random.choice(ARGS),
        settings=tuple(settings),
        additions=tuple(random.sample([line for line in LINES if "model" not in line], random.randint(0, 2))),
        model=random.choice(MODELS),
        data=random.choice(DATA),
        checkpoint=random.choice((None, "weights.pth", "no_such_file")),
        output=random.choice((None, "there", "")),
    )
    return text, options


def attempt(text: str, options: Options, folder: Path, builds: Builds | None) -> str:
    """What kind of recipe it was; raises where a promise is not kept."""
    parsed = try_text(text, folder)
    if builds is not None and not builds.allow(parsed.tree):
        return "not checked"
    checked = try_check(text, folder, options)
    return "unreadable" if parsed.diagnostics else "wrong" if checked.recipe is None else "right"


# -- failures


def signature(failure: Exception) -> str:
    """What tells one failure from another: its kind, and the place in Leaven it comes from."""
    frames = [frame for frame in traceback.extract_tb(failure.__traceback__) if "leaven" in Path(frame.filename).parts]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(failure).__name__} {place or str(failure).partition(chr(10))[0]}"


def describe(number: int, text: str, options: Options, failure: Exception, folder: Path) -> str:
    wanted = signature(failure)

    def fails(smaller: str) -> bool:
        try:
            attempt(smaller, options, folder, None)
        except Exception as other:
            return signature(other) == wanted
        return False

    smallest = reduce(text, fails)
    told = "".join(traceback.format_exception(failure)[-6:])
    shown = "" if options == NO_OPTIONS else f"\nwith {options}"
    return f"case {number} of seed {SEED}: {wanted}\n{told}\n--- the recipe: {smallest!r}{shown}\n{smallest}\n---"
