"""Make the pictures of docs/pictures.md: `python docs/make_pictures.py`, which takes a few minutes.

Everything is made from scikit-learn's digits by the commands that the page shows. The screenshot of the HTML page needs
Chromium; without it, that picture stays as it is.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

PICTURES = Path(__file__).parent / "pictures"
COLORS = 240  # of a palette, which keeps the files small
RECIPE = """
model conv(16) -> res_block(32, stride=2) -> res_block(64, stride=2) -> global_pool() -> linear(classes)
data  digits() {
    split train=600 samples, val=200 samples, test=400 samples
    train random_rotation(20) -> random_crop(8, padding=1) -> to_tensor() -> random_erasing(p=0.8, scale=[0.03, 0.1])
    eval  to_tensor()
}

train batch=64

phase "learn",  epochs=6 { optimizer adamw(lr=3e-3) }
phase "shrink", epochs=4 {
    prune     structured(), amount=50%
    optimizer adamw(lr=1e-3)
}
"""


def main() -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "digits.leaven").write_text(RECIPE, encoding="utf-8")
        leaven(folder, "look", "digits.leaven", "-o", "look.png")
        leaven(folder, "run", "digits.leaven", "--name", "demo")
        leaven(folder, "evaluate", "runs/digits/demo", "--html", "page.html", "--plots", ".")
        run = folder / "runs" / "digits" / "demo"
        keep(folder / "look.png", "look.png", 1000)
        keep(run / "curves.png", "curves.png", 1056)
        keep(run / "phase2-pruning.png", "pruning.png", 700)
        keep(folder / "confusion.png", "confusion.png", 640)
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if browser:
            screenshot(browser, folder / "page.html", folder / "page.png")
            keep(folder / "page.png", "page.png", 760)


def leaven(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "leaven", *words], cwd=folder, check=True)


def screenshot(browser: str, page: Path, file: Path) -> None:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    size = ["--hide-scrollbars", "--window-size=1100,1560"]
    subprocess.run([browser, *flags, *size, f"--screenshot={file}", page.as_uri()], check=True, capture_output=True)


def keep(file: Path, name: str, width: int) -> None:
    """Save a picture in docs, no wider than this and with few colours."""
    image = Image.open(file).convert("RGB")
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.quantize(COLORS).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()
