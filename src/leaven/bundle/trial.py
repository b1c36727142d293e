"""Loads a bundle and runs its model, as a program of its own: in a subprocess with limits of memory and time.

What a configuration asks for can't be told by reading it: each architecture has its own settings, and some make tables
or pad inputs. It prints the headline and the help of the failure that it ends with, and nothing where all went well.
"""

import json
import sys
from pathlib import Path

from leaven.bundle import loading
from leaven.bundle.archive import damaged
from leaven.bundle.tokenizer_trial import Limits, limit
from leaven.runtime.failures import Failure


def main(path: Path, limits: Limits) -> None:
    limit(limits)
    try:
        loading.try_out(path)
    except (Failure, MemoryError) as problem:
        text = problem.headline if isinstance(problem, Failure) else "MemoryError"
        failure = damaged(path, f"its model {limits.too_large()}, far more than its weights")
        if isinstance(problem, Failure) and not any(word in text for word in ("MemoryError", "can't allocate memory")):
            failure = problem
        print(json.dumps([failure.headline, failure.help]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Limits(*map(int, sys.argv[2:])))
