"""The kinds of environments, by the names that settings have for them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leaven.jobs.environments.cloud import Cloud
from leaven.jobs.environments.environment import Environment
from leaven.jobs.environments.kubernetes import Kubernetes
from leaven.jobs.environments.local import Local
from leaven.jobs.environments.ray import Ray
from leaven.jobs.environments.slurm import Slurm

if TYPE_CHECKING:
    from leaven.jobs.settings import Settings

KINDS: dict[str, type[Local | Slurm | Ray | Kubernetes | Cloud]] = {
    "local": Local,
    "slurm": Slurm,
    "ray": Ray,
    "kubernetes": Kubernetes,
    "cloud": Cloud,
}


def make(configured: Mapping[str, Any], settings: "Settings") -> Environment:
    """The environment of a section of the configuration, as a job stores it."""
    return KINDS[configured["kind"]](configured, settings.attempts, settings.wake)
