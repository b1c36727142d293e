"""What keeps still: `freeze`, and the techniques that train only a little of a model."""

from collections.abc import Sequence

from leaven.catalog.selectors import Selector, Without, Word
from leaven.recipe.recipe import AnyTechnique, Freeze, Technique


def is_adapter(technique: AnyTechnique) -> bool:
    """Whether a technique brings weights of its own to layers, and stays with them in later phases."""
    return isinstance(technique, Technique) and bool(technique.invocation.card.facts.get("adapter"))


def in_effect(lasting: Sequence[AnyTechnique], techniques: Sequence[AnyTechnique]) -> list[AnyTechnique]:
    """What has a say in what keeps still: adapters first, those that earlier phases left and a phase's own, then the
    phase's other techniques; so `unfreeze` lets go of what an adapter holds, wherever it stands."""
    return [*lasting, *sorted(techniques, key=lambda technique: not is_adapter(technique))]


def words_that_move(technique: AnyTechnique) -> tuple[str, ...]:
    """What a technique leaves to train of a model, as selectors name it; nothing where it holds nothing still."""
    return tuple(technique.invocation.card.facts.get("moves", ())) if isinstance(technique, Technique) else ()


def as_freeze(technique: AnyTechnique) -> Freeze | None:
    """The `freeze` that a technique is or comes to."""
    if isinstance(technique, Freeze):
        return technique
    words = words_that_move(technique)
    if not words or not isinstance(technique, Technique):
        return None
    still: Selector = Word("all")
    for word in words:
        still = Without(still, Word(word))
    return Freeze(still, "still", technique.invocation.origin)
