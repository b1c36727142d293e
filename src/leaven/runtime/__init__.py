"""The small library that generated programs import: data, weights, freezing, phases, checkpoints, loggers."""

from leaven.formats.split_sizes import Count
from leaven.runtime.data.annotated import coco, mask_folder, voc, yolo
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import digits, image_folder, table, text_folder
from leaven.runtime.data.hub_datasets import hub_dataset
from leaven.runtime.data.named_datasets import (
    cifar10,
    cifar100,
    fashion_mnist,
    imagenet,
    mnist,
    oxford_pets,
    stanford_dogs,
)
from leaven.runtime.data.splits import SplitIndices, split
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.data.torch_datasets import torchvision_dataset, user_dataset
from leaven.runtime.failures import BadFile, Caution, Failure, Stopped
from leaven.runtime.model.builder import model_builder
from leaven.runtime.model.freezing import (
    freeze,
    frozen_copy,
    parameter_groups,
    trainable,
    unfreeze,
    unfreeze_by_epoch,
)
from leaven.runtime.model.heads import remove_auxiliary_heads, replace_head
from leaven.runtime.model.input_spec import read_input_spec, set_input_spec
from leaven.runtime.model.reinit import reinit
from leaven.runtime.model.text import packaged_folder, text_labels, text_model
from leaven.runtime.model.weights import load_weights, packaged_weights
from leaven.runtime.run.arguments import parse
from leaven.runtime.run.checkpoint import CheckpointPolicy
from leaven.runtime.run.guard import guard
from leaven.runtime.run.loggers import MLflow, TensorBoard
from leaven.runtime.run.losses import Criterion, DiceLoss, FocalLoss, balanced_weights
from leaven.runtime.run.phase import Phase
from leaven.runtime.run.run import Run
from leaven.runtime.run.schedules import constant, cosine, linear, multi_step, one_cycle, plateau, polynomial, step_down
from leaven.runtime.solving.solver import HeadSolver
from leaven.runtime.user_code import import_file

__all__ = [
    "BadFile",
    "Caution",
    "CheckpointPolicy",
    "Count",
    "Criterion",
    "Data",
    "DiceLoss",
    "Failure",
    "FocalLoss",
    "HeadSolver",
    "MLflow",
    "Phase",
    "Run",
    "SplitIndices",
    "Stopped",
    "TensorBoard",
    "Tokenizer",
    "balanced_weights",
    "cifar10",
    "cifar100",
    "coco",
    "constant",
    "cosine",
    "digits",
    "fashion_mnist",
    "freeze",
    "frozen_copy",
    "guard",
    "hub_dataset",
    "image_folder",
    "imagenet",
    "import_file",
    "linear",
    "load_weights",
    "mask_folder",
    "mnist",
    "model_builder",
    "multi_step",
    "one_cycle",
    "oxford_pets",
    "packaged_folder",
    "packaged_weights",
    "parameter_groups",
    "parse",
    "plateau",
    "polynomial",
    "read_input_spec",
    "reinit",
    "remove_auxiliary_heads",
    "replace_head",
    "set_input_spec",
    "split",
    "stanford_dogs",
    "step_down",
    "table",
    "text_folder",
    "text_labels",
    "text_model",
    "torchvision_dataset",
    "trainable",
    "unfreeze",
    "unfreeze_by_epoch",
    "user_dataset",
    "voc",
    "yolo",
]
