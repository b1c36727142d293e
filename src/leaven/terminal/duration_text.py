"""A duration, as people say it."""


def duration_text(seconds: float) -> str:
    """`0.8 ms`, `41 ms`, `1.3 s`, `12 s`, `3 min` or `5 h`."""
    if seconds >= 100:
        return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.0f} h"
    amount, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
