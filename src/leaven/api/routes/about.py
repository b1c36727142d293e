"""The lab itself."""

from importlib.util import find_spec

from fastapi import APIRouter

from leaven.api import replies
from leaven.api.lab import Lab
from leaven.formats.installed_versions import leaven_version

_EXTRAS = {"attribution": "captum", "tables": "pyarrow", "figures": "matplotlib", "texts": "transformers"}


def add_about(router: APIRouter, lab: Lab) -> None:
    """What the lab is."""

    @router.get("/lab", summary="What the lab was started with")
    def about() -> replies.Lab:
        return replies.Lab(
            version=leaven_version(),
            given=lab.places.given,
            folders=[lab.places.name_of(root) for root in lab.places.roots],
            runs_code=lab.runs_code,
            most_models=lab.processes.most,
            memory=lab.processes.limits.memory,
            seconds=lab.processes.limits.seconds,
            extras={name: find_spec(library) is not None for name, library in _EXTRAS.items()},
        )
