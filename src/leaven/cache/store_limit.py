"""How large the store may become, as the user says; every command asks before it begins."""

import os

from leaven.terminal.byte_sizes import parse_bytes

LIMIT = "LEAVEN_STORE_LIMIT"


class StoreError(OSError):
    """The store can't be used; the message says why."""


def chosen_limit() -> int | None:
    """The limit that the user has set; raises `StoreError` where that is not a size."""
    chosen = os.environ.get(LIMIT, "").strip()
    if not chosen:
        return None
    limit = parse_bytes(chosen)
    if limit is None:
        raise StoreError(f"{LIMIT} is `{chosen}`, which is not a size; for example: {LIMIT}=20GB")
    return limit
