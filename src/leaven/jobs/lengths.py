"""Lengths of time, as users write them: `90m`, `12h`, `30d`."""

import re

_LENGTH = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d)(?:in|inutes?|ours?|ays?)?", re.ASCII)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 1440.0}


def minutes_of(text: str) -> float | None:
    """The minutes of a length of time; None if it is none."""
    match = _LENGTH.fullmatch(text.strip().lower())
    return float(match[1]) * _MINUTES[match[2]] if match and float(match[1]) else None
