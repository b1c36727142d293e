"""Measure `leaven check` against `python -c "import torch"`, and how it scales with the size of the recipe.

Prints medians, interquartile ranges and ratios; exits with 1 if a check takes more than a tenth of the time of
importing torch. README.md in this folder describes the method.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from command_line import CommandLine

RECIPE = Path(__file__).with_name("sixty.leaven")
SOURCES = Path(__file__).parents[1] / "src"
TIMES = 20
MOST = 0.1  # of the time of importing torch
FEW, MANY = 1_000, 10_000  # statements

CHECK = [sys.executable, "-m", "leaven", "check", str(RECIPE)]
TORCH = [sys.executable, "-c", "import torch"]
LOADS_TORCH = """
import contextlib, io, sys
from leaven.cli.main import main
sys.argv[0:1] = ["leaven", "check"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print("torch" in sys.modules)
"""


class Cost(NamedTuple):
    """The time of one run, in milliseconds."""

    wall: float
    processor: float


def main() -> int:
    line = CommandLine(__doc__)
    line.add("--times", type=int, default=TIMES, help="how often each is timed (default: %(default)s)")
    line.add("--many", type=int, default=MANY, help="statements of a long recipe (default: %(default)s)")
    args = line.read(times=2, many=FEW)
    environment = users_environment()
    for command in (CHECK, TORCH):  # builds the index, compiles bytecode, warms the file system's cache
        measure(command, environment)
    pairs = [(measure(CHECK, environment), measure(TORCH, environment)) for _ in range(args.times)]
    checks, imports = [check for check, _ in pairs], [torch for _, torch in pairs]

    print(versions())
    print(f"{len(RECIPE.read_text(encoding='utf-8').splitlines())} lines, {args.times} times each, alternating")
    print("milliseconds: median (interquartile range)\n")
    print(f"{'':30}{'wall time':>24}{'CPU time':>26}")
    print(row("leaven check sixty.leaven", checks))
    print(row('python -c "import torch"', imports))
    ratio = median(check.wall for check in checks) / median(torch.wall for torch in imports)
    processor = median(check.processor for check in checks) / median(torch.processor for torch in imports)
    print(f"{'ratio':30}{ratio:12.3f}{processor:26.3f}\n")
    print(f"a check imports torch: {'yes' if loads_torch(environment) else 'no'}")
    print(f"{args.many:,} statements take {growth(args.many):.1f} times the CPU time of {FEW:,}")
    return line.judged(ratio <= MOST)


def users_environment() -> dict[str, str]:
    """As for users: bytecode is cached."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def measure(command: list[str], environment: dict[str, str]) -> Cost:
    """The time of a new process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall * 1000, processor * 1000)


def row(name: str, costs: list[Cost]) -> str:
    cells = []
    for values in zip(*costs, strict=True):
        low, _, high = quantiles(values, n=4)
        cells.append(f"{median(values):12.1f}  {f'{low:.1f} to {high:.1f}':12}")
    return f"{name:30}{''.join(cells)}".rstrip()


def versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "click", "lark"))
    return f"Python {platform.python_version()}, {packages}, {platform.machine()}, {os.cpu_count()} cores"


def loads_torch(environment: dict[str, str]) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", LOADS_TORCH, str(RECIPE)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip() != "False"


def growth(many: int) -> float:
    """How many times longer so many statements take than FEW; the best of five measurements each, alternating."""
    sys.path.insert(0, str(SOURCES))
    import leaven
    from leaven.language.source import Source

    def seconds(statements: int) -> float:
        source = Source("long.leaven", long_recipe(statements))
        start = time.process_time()
        assert leaven.check(source).recipe is not None
        return time.process_time() - start

    seconds(FEW)
    pairs = [(seconds(FEW), seconds(many)) for _ in range(5)]
    return min(long for _, long in pairs) / min(short for short, _ in pairs)


def long_recipe(statements: int) -> str:
    """Five statements at a time: an arg, a let that uses it, a phase, and two statements in it."""
    return "model resnet18()\ndata digits()\n" + "".join(
        f"arg lr{at}: float = 1e-3\n"
        f"let twice{at} = lr{at} * 2\n"
        f'phase "p{at}", epochs=1 {{\n    freeze all - head\n    optimizer sgd(lr=twice{at})\n}}\n'
        for at in range(statements // 5)
    )


if __name__ == "__main__":
    sys.exit(main())
