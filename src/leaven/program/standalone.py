"""A program that does not need Leaven: the functions that it uses, written into it."""


def standalone(program: str) -> str:
    raise NotImplementedError
