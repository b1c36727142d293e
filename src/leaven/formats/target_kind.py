"""The kinds of targets: tasks have one, and cards say which ones they take."""

from typing import Literal

# What is predicted for each sample: one of several classes, numbers, a yes or no for each output, objects with boxes
# ("boxes") or with boxes and masks ("instances"), or the class of each pixel ("mask").
TargetKind = Literal["class", "number", "binary", "boxes", "instances", "mask"]
