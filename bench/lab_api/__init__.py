"""The part of lab.py that measures the API: how soon two models answer to a photo that changes."""

import http.client
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

FACTOR, MORE = 2.5, 0.060  # seconds more than so many times the bare forward passes
_WARM_UP = 5


def answers(work: Path, rounds: int) -> bool:
    """The answers of two small models to a changed photo, in turns with their bare forward passes."""
    words = [sys.executable, "-m", "leaven", "lab", str(work), "--api-only", "--port", "0", "--token-file"]
    photo = make_models(work)
    server = subprocess.Popen(
        [*words, str(work / "token")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "LEAVEN_JOBS": str(work / "jobs")},
    )
    try:
        assert server.stdout is not None
        link = urlsplit(server.stdout.readline().strip())
        return _compared(Api(str(link.hostname), int(link.port or 0), work), photo, rounds)
    finally:
        server.terminate()
        server.wait(30)


class Api:
    """A connection to the lab."""

    def __init__(self, host: str, port: int, work: Path) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=300)
        self._headers = {"Authorization": f"Bearer {(work / 'token').read_text()}", "Content-Type": "application/json"}
        self._models = [str(work / name) for name in ("one.bundle", "two.bundle")]

    def predict(self, photo: Path, brightness: float) -> float:
        """The seconds until both have answered."""
        edits = [{"edit": "brightness", "factor": brightness}]
        body = json.dumps({"models": self._models, "input": {"file": str(photo)}, "edits": edits}).encode()
        began = time.perf_counter()
        self._connection.request("POST", "/api/v1/predict", body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return time.perf_counter() - began


def make_models(work: Path) -> Path:
    """Two small models with random weights, as bundles, and a photo of 1,024 × 768 pixels."""
    import numpy as np
    import timm
    import torch
    from PIL import Image
    from torchvision.transforms import v2 as T

    from leaven import bundle
    from leaven.bundle.building import Timm
    from leaven.tasks.classification import Classes

    steps = T.Compose([T.Resize(256), T.CenterCrop(224), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    for file, name in (("one.bundle", "efficientnet_lite0"), ("two.bundle", "mobilenetv3_large_100")):
        torch.manual_seed(0)
        model = timm.create_model(name)
        model.classifier = torch.nn.Linear(model.classifier.in_features, 10)
        target = Classes(tuple("abcdefghij"))
        bundle.save(
            work / file, model.eval(), built_by=Timm(name, head=("classifier", 10)), preprocess=steps, target=target
        )
    pixels = np.random.default_rng(0).integers(0, 255, (96, 128, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((1024, 768)).save(work / "photo.jpg")
    return work / "photo.jpg"


def _compared(api: Api, photo: Path, rounds: int) -> bool:
    import torch

    from leaven import load

    models = [load(photo.with_name(name)) for name in ("one.bundle", "two.bundle")]
    inputs = [model.prepare(photo)[None] for model in models]
    values = itertools.count()
    both: list[float] = []
    bare: list[float] = []
    for turn in range(rounds + _WARM_UP):
        began = time.perf_counter()
        with torch.inference_mode():
            for model, prepared in zip(models, inputs, strict=True):
                model.model(prepared)
        passes = time.perf_counter() - began
        asked = api.predict(photo, 0.5 + 0.001 * next(values))
        if turn >= _WARM_UP:
            bare.append(passes)
            both.append(asked)
    most = FACTOR * median(bare) + MORE
    found = _share(both, 0.95)
    print(f"two forward passes: {_shown(bare)}")
    print(f"the answer of both models to a changed photo: {_shown(both)}; at most {1000 * most:.0f} ms")
    return found <= most


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, round(share * len(times)))]


def _shown(times: Sequence[float]) -> str:
    return f"median {1000 * median(times):.0f} ms, 95 of 100 within {1000 * _share(times, 0.95):.0f} ms"
