"""What `defaults.py` tells the scripts that it compares."""

import argparse


def arguments() -> argparse.Namespace:
    """The folder of images, their size, how long to train, and from what."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--size", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--weights")
    return parser.parse_args()
