"""From a set of parameters to the fewest layer names that say it, as a person would write them."""

from collections.abc import Callable, Iterable

from leaven.catalog.layers import Layers


def paths_of(chosen: Iterable[str], layers: Layers) -> tuple[str, ...]:
    """The topmost modules all of whose parameters are chosen, and the parameters that stand alone, in model order."""
    wanted = frozenset(chosen)
    everything = [parameter.name for parameter in layers.parameters]
    partly: set[str] = set()  # modules with a parameter that is not chosen
    for name in everything:
        if name not in wanted:
            partly.update(_above(name))
    found: dict[str, None] = {}
    for name in sorted(wanted, key=_place(layers)):
        top = next((path for path in _above(name) if path not in partly), name)
        found[top] = None
    return tuple(found)


def _above(name: str) -> list[str]:
    """The modules that a parameter lies in, from the outermost to its own; without the model itself."""
    parts = name.split(".")[:-1]
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _place(layers: Layers) -> Callable[[str], tuple[int, str]]:
    """In the order in which modules are listed."""
    places = {module.path: at for at, module in enumerate(layers.modules)}
    return lambda name: (places.get(name.rpartition(".")[0], 0), name)
