"""How it is told from what a process prints that it had too little memory: libraries say so in words of their own."""

_SIGNS = ("can't allocate memory", "Cannot allocate memory", "memory allocation of", "MemoryError", "bad_alloc")


def says_out_of_memory(text: str) -> bool:
    """Whether a message says so."""
    return any(sign in text for sign in _SIGNS)
