"""From a recipe to a package: the compiled program, the user's files that it needs, the identity of the data."""

import hashlib
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

from leaven.catalog.values import FilePath
from leaven.formats import data_fingerprint, sweep_folder
from leaven.formats.installed_versions import installed_versions, leaven_version
from leaven.formats.user_sources import FOLDER, Sources, UnreadableSource
from leaven.jobs.manifest import Manifest, PackageError
from leaven.jobs.package import Package, make_package
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.recipe.recipe import Data, Recipe
from leaven.runs.starting import output_folder, run_files, trials_of


def pack(source: Source, recipe: Recipe, plan: Plan, resources: Resources, *, is_quick: bool = False) -> Package:
    """The package of a compiled recipe."""
    plan, members = _with_user_code(plan)
    members |= {name: text.encode() for name, text in run_files(source, recipe, plan).items()}
    flags = ["--quick"] if is_quick else []
    if plan.sweep is not None:
        trials = trials_of(plan.sweep, flags, is_quick=is_quick)
        members[sweep_folder.TRIALS] = sweep_folder.trials_json(trials).encode()
    manifest = Manifest(
        name=file_name(plan.name),
        leaven=leaven_version(),
        entry=Entry.SWEEP if plan.sweep is not None else Entry.PROGRAM,
        arguments=tuple(flags),
        is_quick=is_quick,
        resources=resources,
        python=platform.python_version(),
        versions=installed_versions(),
        data=_identity(recipe.data),
        epochs=len(plan.phases) if is_quick else plan.epochs,
        monitor=plan.monitor,
        project=os.getcwd(),
        recipe_folder=os.path.abspath(source.folder),
        output=os.path.abspath(output_folder(plan)),
    )
    return make_package(manifest, members)


def _with_user_code(plan: Plan) -> tuple[Plan, dict[str, bytes]]:
    """The plan with the user's files as members of the package.

    Their folder has a name of its own, so that the program, which looks in the working directory first, never finds
    another file there.
    """
    sources = Sources()
    try:
        members = [sources.add(module.target) if module.is_file else None for module in plan.user_modules]
    except UnreadableSource as problem:
        raise PackageError(f"{problem}, and the job needs it") from None
    digest = hashlib.sha256()
    for name in sorted(sources.members):
        digest.update(name.encode() + b"\0" + sources.members[name] + b"\0")
    place = f"{FOLDER}-{digest.hexdigest()[:12]}"

    def moved(name: str) -> str:
        return place + name.removeprefix(FOLDER)

    modules = tuple(
        module if name is None else replace(module, target=moved(name))
        for module, name in zip(plan.user_modules, members, strict=True)
    )
    return replace(plan, user_modules=modules), {moved(name): text for name, text in sources.members.items()}


def file_name(name: str) -> str:
    """The name of a recipe as one that a folder and a job can have: the recipe's file may be called anything."""
    kept = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in name).strip()
    return kept[:80].strip(". ") or "recipe"


def _identity(data: Data) -> dict[str, Any]:
    """The identity of the data without reading it: outputs, samples per split, and the names of its files."""
    content: dict[str, Any] = {"source": data.source.card.name, "outputs": data.outputs}
    if data.samples is not None:
        content["samples"] = dict(zip(("train", "val", "test"), data.samples, strict=True))
    places = [Path(setting.value.place) for setting in data.source.settings if isinstance(setting.value, FilePath)]
    return {**content, **data_fingerprint.of_files(places)}
