"""fastai's `fine_tune`, with its defaults, as in its tutorial; prints the validation accuracy after the last epoch."""

import contextlib
import sys

from arguments import arguments
from fastai.vision.all import ImageDataLoaders, Resize, accuracy, set_seed, vision_learner


def main() -> None:
    args = arguments()
    set_seed(args.seed, reproducible=True)
    data = ImageDataLoaders.from_folder(
        args.folder, train="train", valid="val", item_tfms=Resize(args.size), num_workers=0
    )
    weights = {"file": args.weights}
    with contextlib.redirect_stdout(sys.stderr):
        learner = vision_learner(data, "tf_efficientnet_lite0", metrics=accuracy, pretrained_cfg_overlay=weights)
        with learner.no_bar(), learner.no_logging():
            learner.fine_tune(args.epochs - 1)  # after one epoch for the head
            scores = learner.validate()
    print(float(scores[-1]))


if __name__ == "__main__":
    main()
