"""The hooks of techniques, and what their constructors can ask for; the same for Leaven's own and for the user's.

A technique is a class. Its constructor takes the arguments of the recipe and, by the names below, objects of the
program. A program calls each hook that the class has, at its place in the loop.
"""

from collections.abc import Iterable

HOOKS = {  # in the order in which a program calls them, with their arguments
    "on_data": ("data",),  # returns the data to use
    "on_model": ("model",),  # changes the model before the phase
    "on_optimizer": ("optimizer",),  # changes the optimizer before the phase
    "before_epoch": ("phase",),
    "on_batch": ("images", "targets"),  # returns the batch to use
    "around_step": ("model",),  # yields once for each time that the gradient is to be computed
    "on_loss": ("loss", "images", "outputs", "targets"),  # returns the loss to use
    "on_gradients": ("model",),
    "after_step": ("model",),
    "model_for_eval": ("model",),  # returns the model to evaluate and save
    "after_epoch": ("phase", "model", "scores"),
    "at_end": ("model",),  # puts the final weights into the model
}
STATE_METHOD = "state_dict"  # a technique with this method is saved in checkpoints
PARAMETERS_METHOD = "parameters"  # the method that returns further parameters for the optimizer
PROVIDED = {  # what a constructor can ask for by name, as a program writes it
    "run": "run",
    "model": "model",
    "classes": "len(data.classes)",
    "outputs": "data.outputs",  # how many the model has, whatever they mean
    "data": "data",
    "fabric": "run.fabric",
    "criterion": "criterion",
    "optimizer": "optimizer",
    "phase": "phase",
    "stages": "",  # the trainable layers from the stem to the head, one list per stage, written by the plan
}


def hooks_in(methods: Iterable[str]) -> tuple[str, ...]:
    """The hooks among the methods of a class."""
    there = set(methods)
    return tuple(name for name in (*HOOKS, STATE_METHOD, PARAMETERS_METHOD) if name in there)
