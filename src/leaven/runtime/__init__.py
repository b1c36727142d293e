"""The small library that generated programs import: data, weights, freezing, loops, checkpoints, records."""

from leaven.runtime.arguments import parse
from leaven.runtime.batches import Data
from leaven.runtime.failures import BadFile, Caution, Failure, Stopped
from leaven.runtime.freezing import freeze, groups, lift, still_copy, trainable, unfreeze, wake
from leaven.runtime.guard import guard
from leaven.runtime.heads import drop_side_outputs, fit_head
from leaven.runtime.items import digits, image_folder, table
from leaven.runtime.losses import FocalLoss, balanced_weights
from leaven.runtime.modules import import_file
from leaven.runtime.parts import Count, Parts, split
from leaven.runtime.phase import Phase
from leaven.runtime.precision import best_precision
from leaven.runtime.records import MLflow, TensorBoard
from leaven.runtime.reset import reinit
from leaven.runtime.run import Run, Saving
from leaven.runtime.schedules import constant, cosine, linear, multi_step, one_cycle, plateau, polynomial, step_down
from leaven.runtime.sets import own_set, torchvision_set
from leaven.runtime.sight import sees, sees_as_in
from leaven.runtime.weights import from_hub, load_weights, starter

__all__ = [
    "BadFile",
    "Caution",
    "Count",
    "Data",
    "Failure",
    "FocalLoss",
    "MLflow",
    "Parts",
    "Phase",
    "Run",
    "Saving",
    "Stopped",
    "TensorBoard",
    "balanced_weights",
    "best_precision",
    "constant",
    "cosine",
    "digits",
    "drop_side_outputs",
    "fit_head",
    "freeze",
    "from_hub",
    "groups",
    "guard",
    "image_folder",
    "import_file",
    "lift",
    "linear",
    "load_weights",
    "multi_step",
    "one_cycle",
    "own_set",
    "parse",
    "plateau",
    "polynomial",
    "reinit",
    "sees",
    "sees_as_in",
    "split",
    "starter",
    "step_down",
    "still_copy",
    "table",
    "torchvision_set",
    "trainable",
    "unfreeze",
    "wake",
]
