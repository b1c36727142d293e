"""What must hold for an odd recipe, tried in one process that has torch loaded.

The planner, a measurement, an interruption and the company of other trials change nothing, bit for bit; an argument or
a helper module that changes between two runs with the same cache changes the result as it does with an empty one. A
recipe may also be refused, with and without the planner in the same words.
"""

import csv
import gc
import io
import json
import os
import random
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests import at_work
from tests.odd.recipes import HELPER, RATES, Odd, made
from torch.optim.optimizer import register_optimizer_step_post_hook

from leaven.formats import sweep_folder
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.plan.plan_json import to_json
from leaven.planning.compiling import Compiled, compile_source
from leaven.program.emit import emit
from leaven.runs import starting
from leaven.runtime.trials import together
from leaven.runtime.trials.shared import share_building
from leaven.statements.options import Options

TOLERANCE = 1e-4  # of the largest weight, where trials are computed at once (decision 0022)
LOST = "is not saved in checkpoints"  # what a resumed run says of plain Python state
EXACT_APART = "every trial runs its own layers"


class Differs(Exception):
    """A promise is broken."""


class Killed(BaseException):
    """The run ends here, without a chance to save."""


@dataclass
class Ended:
    """How a run ended, and what it left."""

    said: str
    refusal: str = ""
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    scores: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Examiner:
    """The files of one recipe; every cache is a folder of its own."""

    odd: Odd
    folder: Path
    caches: int = 0
    sweep: Path | None = None  # where trials train together
    helper: float = 1.25
    plain: dict[str, Path] = field(default_factory=dict)  # programs without the planner, by recipe
    references: dict[object, Ended] = field(default_factory=dict)

    def compiled(self) -> str:
        """Write the planned program, and make the folder of a sweep; why the recipe is refused, if it is."""
        source, found = self._compile(self.odd.recipe)
        if found.plan is None or found.recipe is None:
            return "\n".join(each.headline for each in found.diagnostics if each.severity.name == "ERROR")
        self._write("planned", found.plan)
        self.plain[self.odd.recipe] = self._write("plain", found.plan.asked or found.plan)
        if found.plan.sweep is not None and found.plan.sweep.together and not self.odd.is_measured:
            self.sweep = starting.new_run(source, found.recipe, found.plan, name="sweep")[0]
        return ""

    def _compile(self, recipe: str) -> tuple[Source, Compiled]:
        source = Source("recipe.leaven", recipe, self.folder)
        return source, compile_source(source, Options(output=str(self.folder / "sweeps")))

    def _write(self, name: str, plan: Plan) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "program.py").write_text(emit(plan), encoding="utf-8")
        (self.folder / name / "plan.json").write_text(to_json(plan), encoding="utf-8")
        return self.folder / name / "program.py"

    def write_helper(self, factor: float) -> None:
        self.helper = factor
        (self.folder / "helper.py").write_text(HELPER.format(factor=factor))

    def reference(self, run: Path | None, *flags: str) -> Ended:
        """How the recipe ends without the planner, with the values that a run has measured."""
        recipe = self.odd.recipe
        for setting, chosen in measured_in(run):
            recipe = recipe.replace(f"{setting}=auto", f"{setting}={chosen}")
        asked = (recipe, self.helper, flags)
        if recipe not in self.plain:
            plan = self._compile(recipe)[1].plan
            assert plan is not None, recipe
            self.plain[recipe] = self._write(f"plain-{len(self.plain)}", plan.asked or plan)
        if asked not in self.references:
            output = f"reference-{len(self.references)}"
            self.references[asked] = self.run(self.plain[recipe], output, *flags, cache=self.new_cache())
        return self.references[asked]

    def new_cache(self) -> str:
        self.caches += 1
        return str(self.folder / f"cache-{self.caches}")

    def run(self, file: Path, output: str, *flags: str, cache: str, kill: int = 0, really: bool = False) -> Ended:
        """Run a program in this process, or in one that is really killed; `kill` is the step after which it ends."""
        if really:
            return self._killed(file, output, *flags, cache=cache, kill=kill)
        return work(file, ["--output", output, "--train-only", "--devices", "1", *flags], output, cache, kill)

    def _killed(self, file: Path, output: str, *flags: str, cache: str, kill: int) -> Ended:
        child = os.fork()
        if not child:
            at_work.Moment(step=kill).prepare(signal.SIGKILL)
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                work(file, ["--output", output, "--train-only", "--devices", "1", *flags], output, cache, 0)
            os._exit(0)
        os.waitpid(child, 0)
        return Ended("")


@contextmanager
def killed_after(step: int) -> Iterator[None]:
    if not step:
        yield
        return
    left = step

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    handle = register_optimizer_step_post_hook(count)
    try:
        yield
    finally:
        handle.remove()


def work(file: Path, flags: list[str], output: str, cache: str, kill: int) -> Ended:
    said, refusal = io.StringIO(), ""
    before = dict(os.environ)
    os.environ["LEAVEN_CACHE"] = cache
    sys.argv = [str(file), *flags]
    sys.modules.pop("helper", None)
    try:
        with redirect_stdout(said), redirect_stderr(said), killed_after(kill):
            runpy.run_path(str(file), run_name="__main__")
    except Killed:
        return Ended(said.getvalue())
    except SystemExit as end:
        refusal = str(end.code) if end.code else ""
    finally:
        os.environ.clear()
        os.environ.update(before)
        gc.collect()  # a run holds its folder
    return left_in(newest(output), said.getvalue(), refusal)


def measured_in(run: Path | None) -> list[tuple[str, str]]:
    """The settings that a run has measured, as a recipe has them."""
    known = json.loads((run / "lock.json").read_text()).get("measured", []) if run is not None else []
    chosen = [(each["setting"], str(each["chosen"]).partition("-")[0]) for each in known]  # `bf16` of `bf16-mixed`
    return [(setting, value if value.isdigit() else f'"{value}"') for setting, value in chosen]


def newest(output: str) -> Path:
    return max(Path(output).glob("*"), key=lambda path: path.name)


def left_in(folder: Path, said: str = "", refusal: str = "") -> Ended:
    ended = Ended(said, refusal)
    if (folder / "last.ckpt").is_file():
        state = torch.load(folder / "last.ckpt", weights_only=True)["state"]["model"]
        best = torch.load(folder / "best.ckpt", weights_only=True)["model"]
        ended.weights = {**state, **{f"best {name}": value for name, value in best.items()}}
        with (folder / "metrics.csv").open() as table:
            ended.scores = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(table)]
    return ended


def compare(one: Ended, other: Ended, what: str, tolerance: float = 0.0) -> None:
    """Two runs end with the same weights and scores, or are refused in the same words."""
    if one.refusal or other.refusal:
        if one.refusal.partition("\n")[0] != other.refusal.partition("\n")[0]:
            raise Differs(
                f"{what}: {one.refusal or 'it ended'} | {other.refusal or 'it ended'}\n{one.said}\n{other.said}"
            )
        return
    if one.weights.keys() != other.weights.keys():
        raise Differs(f"{what}: other weights: {sorted(one.weights.keys() ^ other.weights.keys())}\n{one.said}")
    for name, value in one.weights.items():
        if not same(value, other.weights[name], tolerance):
            apart = (value.double() - other.weights[name].double()).abs().max()
            raise Differs(f"{what}: {name} differs by {apart:.3g}\n{one.said}\n{other.said}")
    if not tolerance and one.scores != other.scores:
        raise Differs(f"{what}: other scores\n{one.scores}\n{other.scores}\n{one.said}\n{other.said}")


def same(one: Any, other: Any, tolerance: float) -> bool:
    if not tolerance:
        return torch.equal(one, other) or bool((one.isnan() & other.isnan() | (one == other)).all())
    if not one.is_floating_point():
        return torch.equal(one, other)
    scale = float(other.abs().max()) if other.numel() else 0.0
    return not one.numel() or float((one - other).abs().max()) <= tolerance * scale


def examine(seed: int, folder: Path) -> str:
    """How the recipe of a seed did: the same, or why it is refused; raises Differs where a promise is broken."""
    odd, rng = made(seed), random.Random(f"examine {seed}")
    examiner = Examiner(odd, folder)
    (folder / "mine.py").write_text(odd.code)
    examiner.write_helper(examiner.helper)
    os.chdir(folder)
    torch.set_num_threads(1)
    save_teacher(odd)
    if refusal := examiner.compiled():
        return f"refused: {refusal}"
    if "sampler mine." in odd.recipe:
        raise Differs("an own sampler is not supported, and not refused")
    planned, cache = folder / "planned" / "program.py", examiner.new_cache()
    first = examiner.run(planned, "planned-out", cache=cache)
    compare(first, examiner.reference(newest("planned-out")), "with and without the planner")
    if first.refusal:
        return f"refused: {first.refusal}"
    is_resumed_exactly = killed_and_resumed(examiner, planned, cache, rng)
    if examiner.sweep is not None and rng.random() < 0.5:
        trials_together(examiner, examiner.sweep)
    elif rng.random() < 0.5:
        other = examiner.run(planned, "other-out", "--limit=0.6", cache=cache)
        compare(other, examiner.reference(newest("other-out"), "--limit=0.6"), "with another argument")
    else:
        examiner.write_helper(0.8)
        other = examiner.run(planned, "other-out", cache=cache)
        compare(other, examiner.reference(newest("other-out")), "with another helper module")
    return "the same" if is_resumed_exactly else "the same, but a resumed run says what it could not save"


def save_teacher(odd: Odd) -> None:
    """The weights of the teacher, if there is one."""
    if "Teacher(" not in odd.recipe:
        return
    torch.manual_seed(odd.seed)
    sys.path.insert(0, "")
    code = runpy.run_path("mine.py")
    sys.path.remove("")
    torch.save(code["Teacher"](3 if "mine.Drawn" in odd.recipe else 10).state_dict(), "teacher.pt")


def killed_and_resumed(examiner: Examiner, file: Path, cache: str, rng: random.Random) -> bool:
    """A run that is killed, at any step, comes to the same end when it is resumed, or says what it lost."""
    step = rng.randrange(1, 8)
    examiner.run(file, "killed-out", cache=cache, kill=step, really=rng.random() < 0.2)
    folder = newest("killed-out")
    resumed = work(file, ["--resume", str(folder), "--train-only", "--devices", "1"], "killed-out", cache, 0)
    if LOST in resumed.said:
        return False
    compare(resumed, examiner.reference(folder), f"killed after step {step} and resumed")
    return True


def trials_together(examiner: Examiner, sweep: Path) -> None:
    """Trials that train together come to what each comes to by itself."""
    said = io.StringIO()
    before, os.environ["LEAVEN_CACHE"] = os.environ["LEAVEN_CACHE"], examiner.new_cache()
    sys.argv = [str(sweep / "program.py")]
    sys.modules.pop("helper", None)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            program = together._imported(sweep / "program.py")
            share_building(program)
            together._train(sweep, sweep_folder.read_trials(sweep).trials, program, "")
    finally:
        os.environ["LEAVEN_CACHE"] = before
        gc.collect()
    tolerance = 0.0 if EXACT_APART in said.getvalue() else TOLERANCE
    for number, rate in enumerate(RATES, 1):
        trial = left_in(sweep / f"trial-{number:02}", said.getvalue())
        compare(trial, examiner.reference(None, f"--lr={rate}"), f"trial {number} together and alone", tolerance)
