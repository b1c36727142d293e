"""The kinds of environments: what each may be configured with, and how it is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaven.jobs.environments import cloud, kubernetes, local, ray, slurm
from leaven.jobs.environments.environment import Environment
from leaven.jobs.environments.keys import Form

if TYPE_CHECKING:
    from leaven.jobs.settings import Settings


@dataclass(frozen=True)
class Kind:
    """A kind of environment: the keys of its section with the forms of their values, and its class."""

    keys: Mapping[str, Form]
    environment: Callable[[Mapping[str, Any], Path, Path], Environment]


KINDS = {
    "local": Kind(local.KEYS, local.Local),
    "slurm": Kind(slurm.KEYS, slurm.Slurm),
    "ray": Kind(ray.KEYS, ray.Ray),
    "kubernetes": Kind(kubernetes.KEYS, kubernetes.Kubernetes),
    "cloud": Kind(cloud.KEYS, cloud.Cloud),
}


def make(configured: Mapping[str, Any], settings: "Settings") -> Environment:
    """The environment of a section of the configuration, as a job stores it."""
    return KINDS[configured["kind"]].environment(configured, settings.attempts, settings.wake)
