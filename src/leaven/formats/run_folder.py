"""The folder of a run: how it is named, and the files in it, which are written atomically.

    runs/dogs/2026-11-15_20-21-03/                  or runs/dogs/baseline/, with `--name baseline`
        recipe.leaven     as it was written          program.py   what was run
        resolved.leaven   every default filled in    plan.txt     why, and plan.json, the same for programs
        lock.json         what it was run with       metrics.csv  every epoch
        last.ckpt         where it resumes           best.ckpt    the best weights
        phase1.ckpt       what a phase left to the next
        training.jsonl    every step
        scores.json       the final scores           model.bundle the model
        curves.png        losses and metrics, where matplotlib is installed
        samples.parquet   each sample, with what the model says of it (`sample_table.py`), where pyarrow is installed

Both halves write into it: the compiler what is to be run, the runtime the results. Whatever can't be written is an
`OSError`; how that is told is left to them.
"""

import csv
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leaven.files.regular import read_regular

RECIPE = "recipe.leaven"
RESOLVED = "resolved.leaven"
PLAN = "plan.json"
PLAN_TEXT = "plan.txt"
PROGRAM = "program.py"
LOCK = "lock.json"
METRICS = "metrics.csv"
SCORES = "scores.json"
LAST = "last.ckpt"
BEST = "best.ckpt"
BUNDLE = "model.bundle"
CURVES = "curves.png"
SAMPLES = "samples.parquet"
QUICK = "_quick"  # ends the name of a folder whose run saw two batches only
COMMAND = "LEAVEN_COMMAND"  # the environment variable by which a program knows what was typed to start it
REPORT = "LEAVEN_REPORT"  # that with the file to which a program writes the report of its failure
OUTCOME = "LEAVEN_OUTCOME"  # that with the file to which a program writes how it ended
PACKED_BY = "LEAVEN_PACKED_BY"  # that with the version of Leaven that a job's program belongs to
_TIME = "%Y-%m-%d_%H-%M-%S"
_BY_TIME = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)(?:_quick)?(?:_(\d+))?")
_QUICK = re.compile(rf"{QUICK}(_\d+)?$")
_NAME = re.compile(r"\w[\w.-]{0,99}")


def leaving_file(phase: int) -> str:
    """Where a phase leaves the weights that go on to the next; phases count from 0."""
    return f"phase{phase + 1}.ckpt"


def phase_left_in(name: str) -> int | None:
    """The phase that has left its weights in a file of that name."""
    found = re.fullmatch(r"phase([1-9]\d*)\.ckpt", name)
    return int(found[1]) - 1 if found else None


def leaving_files(run: Path) -> list[Path]:
    """The files of weights that the phases of a run have left."""
    return sorted(file for file in run.glob("phase*.ckpt") if phase_left_in(file.name) is not None)


def epoch_file(phase: int, epoch: int) -> str:
    """Where `checkpoint keep="all"` puts the weights of an epoch; phases count from 0, epochs from 1."""
    return f"phase{phase + 1}-epoch{epoch}.ckpt"


def now() -> str:
    """The time, as it is in the names of folders."""
    return time.strftime(_TIME)


def wrong_name(name: str) -> str | None:
    """Why a run can't have a name; None if it can."""
    if not _NAME.fullmatch(name):
        reason = "use letters, digits, `-`, `_` and `.`, and begin with a letter or digit"
    elif _BY_TIME.fullmatch(name):
        reason = "runs without a name are named like that"
    elif _QUICK.search(name):
        reason = f"smoke tests end in `{QUICK}`"
    else:
        return None
    return f"`{name}` can't be the name of a run: {reason}"


def pruning_file(phase: int) -> str:
    """Where the figure is of what a phase has pruned; phases count from 0."""
    return f"phase{phase + 1}-pruning.png"


def new_folder(output: Path, name: str | None = None, *, is_quick: bool = False, is_private: bool = False) -> Path:
    """A folder of its own for a run, of that name or else named by the time. A name that is taken is an error, unless
    it is that of a smoke test."""
    stem = (name or now()) + (QUICK if is_quick else "")
    number = 1
    while True:
        folder = output / (stem if number == 1 else f"{stem}_{number}")
        try:
            folder.mkdir(mode=0o700 if is_private else 0o777, parents=True)
        except FileExistsError:
            is_taken = name is not None and not is_quick
            if is_taken or not folder.is_dir():  # in the latter case, a file stands where a folder above it should be
                raise
            number += 1
            continue
        return folder


def newest(place: Path, name: str) -> Path | None:
    """A file of a run, found from the run's folder, or from that of several runs: then of the newest that has it.

    A folder of several runs never means a smoke test."""
    if os.path.isfile(place / name):
        return place / name
    found = [run for run in _runs_with(place, f"*/{name}") if not is_smoke_test(run)]
    return max(found, key=_age) / name if found else None


def unfinished_below(place: Path) -> list[Path]:
    """The runs in a folder, or in the folders in it, that have not saved a model."""
    runs = (run for pattern in (f"*/{PROGRAM}", f"*/*/{PROGRAM}") for run in _runs_with(place, pattern))
    return sorted(run for run in runs if not is_finished(run))


def only_in_smoke_test(place: Path, name: str) -> tuple[str, str] | None:
    """The problem and the remedy where only smoke tests in a folder of runs have the requested file; else None."""
    found = [run for run in _runs_with(place, f"*/{name}") if is_smoke_test(run)]
    if not found or newest(place, name) is not None:
        return None
    run = max(found, key=_age)
    what = "a run" if name == PROGRAM else f"a {name}"
    return f"only smoke tests have {what} in {place}", f"train without `--quick`, or pass the smoke test: {run}"


def not_a_run(place: Path) -> tuple[str, str]:
    """The problem and the remedy where a folder is neither a run nor has runs in it."""
    what = "it has no program.py" if place.exists() else "the folder does not exist"
    return only_in_smoke_test(place, PROGRAM) or (f"{place} is not a run: {what}", "")


def is_smoke_test(run: Path) -> bool:
    """Whether a run saw two batches only, by the name of its folder."""
    return _QUICK.search(run.name) is not None


def _age(run: Path) -> tuple[str, int, str]:
    """Orders runs by when they were started: by the time in the name, else by that in the lock."""
    named = _BY_TIME.fullmatch(run.name)
    if named is not None:
        return named[1], int(named[2] or 1), run.name
    return str(read_json(run / LOCK).get("started", "")), 0, run.name


def _runs_with(place: Path, pattern: str) -> list[Path]:
    """The folders of the files in a folder that match a pattern."""
    return [file.parent for file in place.glob(pattern)] if os.path.isdir(place) else []


def program_hash(program: bytes) -> str:
    """The hash of a program in `lock.json`."""
    return hashlib.sha256(program).hexdigest()


def first_lock(program: bytes, *, recipe_folder: str, started_in: str, **more: str) -> str:
    """The lock of a run before its program was run: what was compiled, when, and where paths start."""
    facts = {"program": program_hash(program), **more, "started": now()}
    return json.dumps({**facts, "recipe_folder": recipe_folder, "started_in": started_in}, indent=2) + "\n"


def is_edited(program: Path) -> bool:
    """Whether a program in a run folder was changed since it was compiled."""
    then = read_json(program.parent / LOCK).get("program")
    return then is not None and then != program_hash(program.read_bytes())


def was_quick(lock: dict[str, Any]) -> bool:
    """Whether a run was a smoke test, which can't be trained further."""
    return bool(lock.get("arguments", {}).get("quick"))


def is_finished(run: Path) -> bool:
    """Whether a run has saved its model, and was not resumed since."""
    return bool(read_json(run / LOCK).get("finished", (run / BUNDLE).is_file()))


def is_trained(run: Path) -> bool:
    """Whether all phases of a run are done; one that was finished early can be resumed."""
    return bool(read_json(run / LOCK).get("trained", True))


def started_in(run: Path) -> Path:
    """The folder where a run was started, from which the paths in its program start; else the current one."""
    found = read_json(run / LOCK).get("started_in")
    return Path(found) if isinstance(found, str) and os.path.isdir(found) else Path.cwd()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The epochs of a run, with numbers as numbers; a score that an epoch does not have is left out."""
    try:
        content = read_regular(run / METRICS)
    except OSError:
        return []
    rows = csv.DictReader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""))
    kinds: dict[str, Callable[[str], Any]] = {"phase": str, "epoch": int}
    return [{name: kinds.get(name, float)(text) for name, text in row.items() if text} for row in rows]


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none that can be read."""
    try:
        found = json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
