"""Which files are meant by a folder, or by a pattern such as `*.jpg`."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from leaven.bundle.inputs.opening import HEIC_ENDINGS
from leaven.formats.image_folder import IMAGE_ENDINGS, files_below
from leaven.runtime.failures import Failure


def is_folder_or_pattern(given: str) -> bool:
    """Whether a path means any number of files; a file whose name looks like a pattern is that file."""
    return os.path.isdir(given) or (
        glob.has_magic(given) and not os.path.exists(given) and not given.startswith(("http://", "https://"))
    )


def find_files(inputs: Sequence[str]) -> tuple[list[str], list[Failure]]:
    """The files that are meant, each once; and what is wrong where there are none."""
    files: dict[str, None] = {}
    problems = []
    for given in inputs:
        if not is_folder_or_pattern(given):
            there = [given]
        elif os.path.isdir(given):
            there = sorted(f for f in files_below(Path(given)) if f.lower().endswith((*IMAGE_ENDINGS, *HEIC_ENDINGS)))
            if not there:
                problems.append(Failure(f"{given} has no images", f"images end in {', '.join(IMAGE_ENDINGS)}"))
        else:
            there = sorted(file for file in glob.glob(given, recursive=True) if os.path.isfile(file))
            if not there:
                problems.append(Failure(f"no file matches {given}"))
        files |= dict.fromkeys(there)
    return list(files), problems
