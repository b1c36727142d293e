"""Whether models agree about an input, in words."""

from collections.abc import Sequence


def agreement(models: Sequence[str], answers: Sequence[str], *, is_same: bool) -> str:
    """`both models answer cat`, or what each of them answers; empty for a single one."""
    if len(models) < 2:
        return ""
    if is_same:
        count = "both" if len(models) == 2 else f"all {len(models)}"
        return f"{count} models answer {answers[0]}"
    return "; ".join(f"{model} answers {answer}" for model, answer in zip(models, answers, strict=True))
