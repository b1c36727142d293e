"""With which numbers to compute."""

import torch


def best_precision() -> str:
    """bfloat16 where the hardware is made for it, else 32 bits."""
    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(False) else "32-true"
