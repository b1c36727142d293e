"""What a person types where there is no Leaven; a program that stands alone has these in place of `commands.py`'s."""

import sys
from pathlib import Path


def to_resume(folder: Path) -> str:
    return f"python {sys.argv[0]} --resume {folder}"


def to_use(file: Path, *, trust_code: bool) -> str:
    return f'load it: model.load_state_dict(torch.load("{file}", weights_only=True))'
