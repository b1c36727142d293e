"""When classes have so different numbers of samples that accuracy misleads.

The check warns of it, and a first recipe measures something else; so neither warns of what the other has written.
"""

from collections.abc import Collection

LARGEST_SHARE = 0.8  # of all samples in one class: a model that always predicts it looks good
LARGEST_RATIO = 20  # of one class to another: the rare one can be missed altogether


def are_imbalanced(counts: Collection[int]) -> bool:
    """Whether classes with so many samples are imbalanced; one class alone is not."""
    if len(counts) < 2:
        return False
    return max(counts) >= min(LARGEST_SHARE * sum(counts), LARGEST_RATIO * min(counts))
