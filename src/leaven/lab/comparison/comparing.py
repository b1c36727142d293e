"""Two models, runs or recipes compared: which does better, what differs between them, their costs and layers.

Two claims are kept apart. One is about the two models, on the samples on which they were measured. The other is about
their recipes: whether training again would give the same order, which only several seeds can tell.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leaven.bundle.inputs.protocol import SplitName
from leaven.catalog.layers import Layers
from leaven.formats.finite_json import as_json
from leaven.formats.run_folder import LOCK, read_json
from leaven.lab.comparison.cost import (
    Cost,
    Probe,
    cost_of_recipe,
    flops_by_layer,
    latencies,
    parameter_count,
    probe,
)
from leaven.lab.comparison.layers import Layer, LayerPair, aligned_layers, layers_of, layers_of_recipe
from leaven.lab.comparison.measured import Measured, measured_pair, of_run, pair
from leaven.lab.comparison.paired import Paired
from leaven.lab.comparison.recipes import (
    Difference,
    lock_differences,
    recipe_differences,
    version_differences,
    versions_in,
)
from leaven.lab.comparison.report import report
from leaven.lab.comparison.seeds import ONE_SEED, SeedTest, runs_by_seed
from leaven.lab.subject import Subject
from leaven.planning.compiling import compile_source
from leaven.rules.inputs import size_of_images
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

Word = str | os.PathLike[str] | Subject


@dataclass(frozen=True, repr=False)
class Comparison:
    """A comparison of A and B; what could not be compared is in `notes`, each with its reason."""

    a: str
    b: str
    measured: tuple[Measured, Measured] | None
    paired: Paired | None
    seeds: SeedTest | None
    differences: tuple[Difference, ...]
    costs: tuple[Cost, Cost]
    layers: tuple[LayerPair, ...]
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Which is better, in a sentence."""
        known = self.seeds if self.seeds is not None else self.paired
        return known.words if known is not None else "; ".join(self.notes)

    @property
    def claim(self) -> str:
        """What is known of the recipes, as opposed to these models; empty where no models were compared."""
        if self.seeds is not None:
            return self.seeds.words
        return ONE_SEED if self.measured is not None else ""

    @as_json
    def to_json(self) -> dict[str, Any]:
        sides = self.measured or (None, None)
        return {
            "a": self.a,
            "b": self.b,
            "words": self.words,
            "claim_about_training": self.claim,
            "measured": {name: one and one.to_json() for name, one in zip("ab", sides, strict=True)},
            "paired": self.paired and self.paired.to_json(),
            "seeds": self.seeds and self.seeds.to_json(),
            "differences": [one.to_json() for one in self.differences],
            "costs": {name: one.to_json() for name, one in zip("ab", self.costs, strict=True)},
            "layers": [one.to_json() for one in self.layers],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """For a terminal."""
        return report(self)

    def __repr__(self) -> str:
        return f"<Comparison of {visible(self.a)} and {visible(self.b)}: {visible(self.words)}>"


def compare(
    a: Word,
    b: Word,
    *,
    data: Any = None,
    split: SplitName | None = None,
    seeds: bool = False,
    trust_code: bool = False,
) -> Comparison:
    """Compare two runs, bundles, published models or recipes: `compare("runs/a", "runs/b")`.

    Both are measured on the same labelled samples: on `data` (as `Bundle.evaluate` takes it), else on what their runs
    kept for testing. With `seeds`, A and B are folders of runs that differ by the seed alone.
    """
    if seeds:
        return _by_seeds(a, b, split, trust_code=trust_code)
    one, other = (word if isinstance(word, Subject) else Subject(word, trust_code=trust_code) for word in (a, b))
    found, paired, notes = _results(one, other, data, split)
    return replace(_taken_apart(one, other), measured=found, paired=paired, notes=notes)


def _results(
    a: Subject, b: Subject, data: Any, split: SplitName | None
) -> tuple[tuple[Measured, Measured] | None, Paired | None, tuple[str, ...]]:
    """The scores of both, the paired test, and why there is none."""
    if a.recipe is not None or b.recipe is not None:
        return None, None, ("answers are not compared: a recipe has no trained model",)
    try:
        found = measured_pair(a, b, data, split)
    except Failure as failure:
        if data is not None:
            raise
        help = f" ({failure.help})" if failure.help else ""
        return None, None, (f"answers are not compared: {failure.headline}{help}",)
    test = pair(*found)
    if isinstance(test, str):
        return found, None, (test,)
    return found, test, _doubts(a, b, data)


def _doubts(a: Subject, b: Subject, data: Any) -> tuple[str, ...]:
    """That a model of unknown training may know the samples that the run of the other kept for testing."""
    if data is not None or (a.run is None) == (b.run is None):
        return ()
    owner, other = ("A", "B") if a.run is not None else ("B", "A")
    return (f"the samples are those that {owner} kept for testing; {other} may have been trained on them",)


def _by_seeds(a: Word, b: Word, split: SplitName | None, *, trust_code: bool) -> Comparison:
    names = [word.name if isinstance(word, Subject) else os.fspath(word) for word in (a, b)]
    runs = [runs_by_seed(Path(name)) for name in names]
    results = [{seed: of_run(Subject(run, trust_code=trust_code), split) for seed, run in one.items()} for one in runs]
    every = [each for one in results for each in one.values()]
    if len({(each.task, each.graded_by) for each in every}) > 1:
        raise Failure("the runs have different tasks, so their results can't be compared")
    are_same = len({(frozenset(each.errors), each.data) for each in every}) == 1
    notes = () if are_same else ("the runs were not all measured on the same samples",)
    step = 0.0 if every[0].graded_by else 1 / min(len(each.errors) for each in every)
    errors = [{seed: each.mean_error for seed, each in one.items()} for one in results]
    first = _taken_apart(*(Subject(next(iter(one.values())), trust_code=trust_code) for one in runs))
    unequal = tuple(each for each in first.differences if each.what != "seed")
    return replace(
        first, a=names[0], b=names[1], seeds=SeedTest(errors[0], errors[1], step), differences=unequal, notes=notes
    )


# -- what differs


def _taken_apart(a: Subject, b: Subject) -> Comparison:
    """Everything but the answers."""
    parts = (_Parts.of(a), _Parts.of(b))
    costs = (parts[0].cost, parts[1].cost)
    if (first := parts[0].probe) is not None and (second := parts[1].probe) is not None:
        times = latencies(first, second)
        costs = (replace(costs[0], milliseconds=times[0]), replace(costs[1], milliseconds=times[1]))
    layers = aligned_layers(parts[0].layers, parts[1].layers)
    return Comparison(_named(a), _named(b), None, None, None, _differences(a, b), costs, layers)


def _named(subject: Subject) -> str:
    """Its name; the folder of the run where that of several runs is given, which means the newest."""
    is_folder = subject.run is not None and Path(subject.name).is_dir()
    return os.fspath(subject.run) if is_folder and subject.run is not None else subject.name


def _differences(a: Subject, b: Subject) -> tuple[Difference, ...]:
    """What differs in recipe, data, seed and versions, as far as both tell."""
    plans = (a.plan, b.plan)
    found: tuple[Difference, ...] = ()
    if plans[0] is not None and plans[1] is not None:
        found = recipe_differences(plans[0], plans[1])
    if a.run is not None and b.run is not None:
        return (*found, *lock_differences(read_json(a.run / LOCK), read_json(b.run / LOCK)))
    if a.recipe is not None or b.recipe is not None:
        return found
    return (*found, *version_differences(_versions(a), _versions(b)))


def _versions(subject: Subject) -> Mapping[str, Any]:
    if subject.run is not None:
        return versions_in(read_json(subject.run / LOCK))
    return subject.model.manifest.versions


@dataclass(frozen=True)
class _Parts:
    """The layers of a model and its costs; it can be run if it is trained."""

    layers: tuple[Layer, ...]
    cost: Cost
    probe: Probe | None

    @classmethod
    def of(cls, subject: Subject) -> "_Parts":
        if subject.recipe is not None:
            layers = recipe_layers(subject)
            return cls(layers_of_recipe(layers), cost_of_recipe(layers), None)
        model = subject.model
        run = probe(model)
        flops = flops_by_layer(model, run)
        cost = Cost(parameter_count(model), flops.get(""), shape=run.shape)
        return cls(layers_of(model.model, flops), cost, run)


def recipe_layers(subject: Subject) -> Layers:
    """The layers of the model that a recipe would train, at the size of its images."""
    assert subject.recipe is not None
    compiled = compile_source(subject.recipe, run_code=False)
    size = size_of_images(compiled.recipe.data) if compiled.recipe is not None else None
    layers = compiled.foundation.layers_at(size)
    if layers is None:
        reason = next(
            (one.headline for one in compiled.foundation.diagnostics if one.is_error), "its model is Python code"
        )
        raise Failure(f"the layers of {subject.name} are not known: {reason}")
    return layers
