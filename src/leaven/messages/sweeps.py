"""Reports about sweeps."""

from collections.abc import Sequence

from leaven.catalog.values import Arg, Invocation, Score
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import write
from leaven.messages.describe import TYPE_NOUNS
from leaven.messages.places import span_of
from leaven.messages.suggestions import similar


def not_an_arg(sweep: Invocation, near: Sequence[str]) -> Diagnostic:
    name, place = sweep.value("name"), span_of(sweep["name"].origin)
    fix = similar(place, near[:1]) or f"declare it: `arg {name}: float = …`"
    return error("unknown-name", f"the recipe has no `arg {name}` to sweep over", (place, "not an `arg`"), fix=fix)


def no_values(sweep: Invocation) -> Diagnostic:
    headline = f"the sweep over `{sweep.value('name')}` has no values"
    return error("wrong-length", headline, (sweep["values"], "expected at least one"))


def range_of_words(sweep: Invocation, arg: Arg) -> Diagnostic:
    headline = f"a range is of numbers, but `{arg.name}` is {TYPE_NOUNS.get(arg.type, 'something else')}"
    return error("wrong-type", headline, (sweep["values"], "expected a list of values"))


def not_recorded(sweep: Invocation, by: Score) -> Diagnostic:
    place, reason = span_of(sweep["by"].origin), "only the loss is measured in training"
    if by.split == "test":
        reason = "the test split is used once, at the end"
    headline = f"trials can't be compared by `{by}`: {reason}"
    fix = write(place, f"val.{by.metric}")
    return error("unknown-score", headline, (place, "expected a score of the validation split"), fix=fix)


def without_effect(sweep: Invocation) -> Diagnostic:
    headline = f"`{sweep.value('name')}` has no effect, so all trials of the sweep would be the same"
    fix = "use it, or remove the sweep"
    return error("unused-name", headline, (sweep["name"], "used by no statement that takes effect"), fix=fix)
