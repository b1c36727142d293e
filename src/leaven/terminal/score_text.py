"""How scores are printed: in the lines of a run, in reports of evaluations, on the cards of bundles."""


def score_text(score: float) -> str:
    """A score with four decimals; one that these would hide or that has many digits, with four significant digits."""
    return f"{score:.4g}" if 0 < abs(score) < 1e-3 or abs(score) >= 1e8 else f"{score:.4f}"
