"""Runs generated programs one after another in one process, which saves importing torch for each.

    python run_each.py FOLDER...

In each folder `program.py --quick` is run. One line of JSON for each says how it ended.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import timm
import torch

WEIGHTS = Path("resnet18.pth")


def run(folder: Path) -> dict[str, str]:
    """How a program ended, and what it printed."""
    os.chdir(folder)
    if WEIGHTS.is_file():
        torch.save(timm.create_model("resnet18").state_dict(), WEIGHTS)
    sys.argv = ["program.py", "--quick", "--devices", "1"]
    said, end = io.StringIO(), "done"
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path("program.py", run_name="__main__")
        except SystemExit as leaving:
            end = f"exit: {leaving.code}"
        except BaseException:
            end = traceback.format_exc()
    torch.use_deterministic_algorithms(False)
    return {"name": folder.name, "end": end, "said": said.getvalue()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for folder in [Path(word).resolve() for word in sys.argv[1:]]:
        print(json.dumps(run(folder)), flush=True)
