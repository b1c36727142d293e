"""The planner: a recipe says what to train, and these passes decide how, each for one thing that can be done faster.

A pass is a function from plan to plan. It changes what the program does, never what comes out of it (unless the recipe
asks for an approximation), and records each decision with its reason as a `Choice`.
"""

from dataclasses import replace

from leaven.plan.plan import Plan
from leaven.planning.passes.decoded_images import store_decoded_images
from leaven.planning.passes.frozen_layers import store_frozen_layers
from leaven.planning.passes.measured_settings import measure_settings, usual_settings
from leaven.planning.passes.teachers import store_teacher_outputs
from leaven.planning.passes.trials import train_trials_together

# what frozen layers alone need is not stored as images, too
PASSES = (
    store_frozen_layers,
    store_teacher_outputs,
    store_decoded_images,
    measure_settings,
    train_trials_together,  # where the others have stored all that is frozen
)


def improve(plan: Plan) -> Plan:
    """The plan as it is run, with the one before beside it."""
    asked = usual_settings(plan)
    for improved in PASSES:
        plan = improved(plan)
    return replace(plan, asked=asked)
