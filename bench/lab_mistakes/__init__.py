"""The mistakes of a model: what they cost for a finished run, and on other data."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

RECIPE = """
model efficientnet_lite0(pretrained=true)
data  folder("{photos}")
freeze all - head
train epochs=1, batch=32, seed=1
"""
MOST_SECONDS = 1.0  # of processor time, for the mistakes of a finished run
MOST_RATIO = 1.2  # of an evaluation, for those on other data

OF_RUN = """
import json, sys, time
from leaven.lab import errors
found = errors(sys.argv[1])
worst = [one.to_json() for one in found.worst]
print(json.dumps({"count": len(worst), "torch": "torch" in sys.modules, "seconds": time.process_time()}))
"""
OF_DATA = """
import json, sys, time, shutil
from leaven import load
from leaven.cache.location import user_folder
from leaven.lab import errors
model, data, rounds = load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
model.evaluate(data)  # not counted: libraries are loaded
pairs = []
for number in range(rounds):
    times = {}
    for what in ("evaluation", "mistakes")[:: 1 if number % 2 else -1]:
        shutil.rmtree(user_folder() / "samples", ignore_errors=True)
        began = time.process_time()
        model.evaluate(data) if what == "evaluation" else errors(model, data).worst
        times[what] = time.process_time() - began
    pairs.append(times)
print(json.dumps(pairs))
"""


def mistakes(photos: Path, work: Path, rounds: int) -> bool:
    """The ten most confident mistakes: of a finished run by its record, and on other data."""
    recipe = work / "lab.leaven"
    recipe.write_text(RECIPE.format(photos=photos), encoding="utf-8")
    run = work / "runs" / "lab" / f"run-{os.getpid()}"
    _python("-m", "leaven", "run", str(recipe), "--output", str(run.parent), "--name", run.name)
    own = [json.loads(_python("-c", OF_RUN, str(run))) for _ in range(rounds + 1)][1:]
    seconds = median(one["seconds"] for one in own)
    pairs = json.loads(_python("-c", OF_DATA, str(run / "model.bundle"), str(photos / "val"), str(rounds)))
    ratios = [one["mistakes"] / one["evaluation"] for one in pairs]
    evaluation = median(one["evaluation"] for one in pairs)
    print(f"mistakes of a finished run: {seconds:.2f} s of processor time (goal: {MOST_SECONDS})")
    print(f"torch is {'' if any(one['torch'] for one in own) else 'not '}imported")
    print(
        f"mistakes on other data: {median(ratios):.2f} times an evaluation of {evaluation:.2f} s (goal: {MOST_RATIO})"
    )
    print(f"  lowest {min(ratios):.2f}, highest {max(ratios):.2f}, {rounds} rounds")
    return seconds < MOST_SECONDS and median(ratios) <= MOST_RATIO and not any(one["torch"] for one in own)


def _python(*words: str) -> str:
    """What a Python process prints; it must end well."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed after {time.monotonic() - began:.0f} s: {' '.join(words)[:200]}\n{done.stdout}{done.stderr}")
    return done.stdout
