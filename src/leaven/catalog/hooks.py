"""What a technique can take part in, and what it can ask for: the same for Leaven's own and for a user's.

A technique is a class. Its constructor takes what the recipe says, and by these names what the program has; each of the
methods named here is called at its place in the program, and where a class has no such method, nothing is written.
"""

from collections.abc import Iterable

HOOKS = {  # in the order in which a program comes to them, with what each is given
    "on_data": ("data",),  # gives other data
    "on_model": ("model",),  # changes the model before the phase
    "on_optimizer": ("optimizer",),  # changes the optimizer before the phase
    "before_epoch": ("phase",),
    "on_batch": ("images", "labels"),  # gives others
    "around_step": ("model",),  # yields as often as the gradient is to be computed
    "on_loss": ("loss", "images", "outputs", "labels"),  # gives another
    "on_gradients": ("model",),
    "after_step": ("model",),
    "model_for_eval": ("model",),  # gives the model that is measured and kept
    "after_epoch": ("phase", "model", "scores"),
    "at_end": ("model",),  # leaves in the model what goes on
}
HAS_STATE = "state_dict"  # the method by which a technique says that a checkpoint must hold something of it
LEARNS = "parameters"  # the method by which it gives the optimizer weights of its own
HAD = {  # the names by which a constructor asks for what the program has
    "run": "run",
    "model": "module",
    "classes": "len(data.classes)",
    "data": "data",
    "fabric": "fabric",
    "criterion": "criterion",
    "optimizer": "optimizer",
    "phase": "phase",
    "stages": "",  # the moving layers from the stem to the head, a list for each stage, as the plan knows them
}


def hooks_in(methods: Iterable[str]) -> tuple[str, ...]:
    """Those of a class's methods that a program calls."""
    there = set(methods)
    return tuple(name for name in (*HOOKS, HAS_STATE, LEARNS) if name in there)
