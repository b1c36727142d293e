"""A loaded bundle takes the most basic data point, in whatever form it comes."""

import io
import socket
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from leaven.bundle import Bundle
from leaven.runtime.failures import Failure
from leaven.tasks.classification import Prediction

Paint = Callable[..., Path]
GREEN = (0, 255, 0)


def green(height: int = 30, width: int = 40) -> np.ndarray:
    array: np.ndarray = np.zeros((height, width, 3), dtype=np.uint8)
    array[:, :, 1] = 255
    return array


class TestPredictions:
    def test_label_confidence_and_the_likeliest(self, colours: Bundle, paint: Paint) -> None:
        answer = colours(paint("a.png", (255, 128, 0)))
        assert answer.label == "red"
        assert answer.confidence == pytest.approx(0.9933, abs=1e-3)
        assert [label for label, _ in answer.top(3)] == ["red", "green", "blue"]
        assert sum(share for _, share in answer.top(3)) == pytest.approx(1)
        assert answer.top(1) == [("red", answer.confidence)]
        assert len(answer.top(50)) == 3

    def test_it_prints_as_a_person_would_say_it(self, colours: Bundle) -> None:
        assert repr(colours(green())) == "<Prediction: green 100.0 %; red 0.0 %, blue 0.0 %>"

    def test_a_list_gives_a_list(self, colours: Bundle, paint: Paint) -> None:
        several = [paint(f"{colour}.png", colour) for colour in ("red", "blue", "red")] * 15
        assert [answer.label for answer in colours(several)] == ["red", "blue", "red"] * 15
        assert colours([]) == []

    def test_a_folder_or_a_pattern_gives_an_answer_for_each_file(
        self, colours: Bundle, paint: Paint, tmp_path: Path
    ) -> None:
        several = {str(paint(f"{colour}.png", colour)): colour for colour in ("blue", "red")}
        for given in (tmp_path, str(tmp_path), str(tmp_path / "*.png")):
            assert {file: answer.label for file, answer in colours(given).items()} == several
        with pytest.raises(Failure, match=r"no file matches .*\*\.jpg"):
            colours(str(tmp_path / "*.jpg"))

    def test_a_picture_gets_the_same_answer_alone_and_among_others(self, colours: Bundle) -> None:
        chance = np.random.default_rng(0)
        several = [chance.integers(0, 255, (30, 40, 3), dtype=np.uint8) for _ in range(5)]
        alone = [colours(one).probabilities for one in several]
        assert np.allclose(alone, [answer.probabilities for answer in colours(several)], atol=1e-6)

    def test_bad_ones_are_answered_by_failures(self, colours: Bundle, paint: Paint, tmp_path: Path) -> None:
        (tmp_path / "bad.jpg").write_bytes(b"no picture")
        answers = list(colours.each([paint("a.png"), tmp_path / "bad.jpg", paint("b.png", "blue")], batch=2))
        assert isinstance(answers[1], Failure)
        assert [answer.label for answer in answers if isinstance(answer, Prediction)] == ["red", "blue"]

    def test_a_bundle_says_what_it_is(self, colours: Bundle) -> None:
        assert repr(colours) == "<Bundle colours.bundle: 3 classes; test.accuracy 1.0000>"
        assert colours.classes == ("red", "green", "blue")
        assert colours.scores == {"test.accuracy": 1.0}


@pytest.mark.parametrize(
    "given",
    [
        green(),
        green().astype(np.float32) / 255,
        green().astype(np.float64) / 255,
        green().astype(np.int64),
        green().astype(np.uint16) * 257,
        np.asfortranarray(green()),
        np.dstack([green(), np.full((30, 40), 255, dtype=np.uint8)]),
        torch.from_numpy(green()).permute(2, 0, 1),
        torch.from_numpy(green()).permute(2, 0, 1) / 255,
        (torch.from_numpy(green()).permute(2, 0, 1) / 255).bfloat16(),
        Image.fromarray(green()),
        Image.fromarray(green()).convert("RGBA"),
        Image.fromarray(green()).convert("P"),
        Image.fromarray(green()).convert("CMYK"),
        Image.fromarray(green()).convert("YCbCr"),
    ],
    ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', getattr(given, 'mode', ''))}",
)
def test_arrays_tensors_and_pictures(colours: Bundle, given: Any) -> None:
    assert colours(given).label == "green"


@pytest.mark.parametrize(
    ("name", "mode", "colour"),
    [
        ("a.jpg", "RGB", "blue"),
        ("a.png", "RGBA", (0, 0, 255, 255)),
        ("a.jpg", "CMYK", (255, 255, 0, 0)),
        ("a.webp", "RGB", "blue"),
        ("a.bmp", "RGB", "blue"),
        ("a.tiff", "RGB", "blue"),
        ("a.gif", "RGB", "blue"),
    ],
)
def test_files_of_every_kind(colours: Bundle, paint: Paint, name: str, mode: str, colour: Any) -> None:
    file = paint(name, colour, mode=mode)
    assert colours(str(file)).label == "blue"
    assert colours(file.read_bytes()).label == "blue"
    with file.open("rb") as stream:
        assert colours(stream).label == "blue"


class TestOddPictures:
    def test_an_animation_is_its_first_frame(self, colours: Bundle, tmp_path: Path) -> None:
        frames = [Image.new("RGB", (20, 20), colour) for colour in ("blue", "red", "red")]
        frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
        assert colours(tmp_path / "a.gif").label == "blue"

    def test_deep_and_grey_ones_become_grey_colours(self, colours: Bundle, tmp_path: Path) -> None:
        Image.fromarray(np.full((30, 30), 32768, dtype=np.uint16)).save(tmp_path / "deep.png")
        Image.new("L", (30, 30), 128).save(tmp_path / "grey.png")
        deep, grey = (colours.prepare(tmp_path / name) for name in ("deep.png", "grey.png"))
        assert torch.equal(deep, grey)
        assert deep.unique().numel() == 1

    def test_a_photo_is_turned_upright(self, colours: Bundle, tmp_path: Path) -> None:
        upright = np.zeros((40, 40, 3), dtype=np.uint8)
        upright[:20] = 255
        Image.fromarray(upright).save(tmp_path / "upright.png")
        exif = Image.Exif()
        exif[0x0112] = 6  # the image must be rotated by 90 degrees
        turned = Image.fromarray(np.rot90(upright).copy())
        turned.save(tmp_path / "turned.png", exif=exif)
        expected = colours.prepare(tmp_path / "upright.png")
        assert torch.equal(colours.prepare(tmp_path / "turned.png"), expected)
        with Image.open(tmp_path / "turned.png") as opened:
            assert torch.equal(colours.prepare(opened), expected)

    def test_the_tiniest(self, colours: Bundle) -> None:
        assert colours(Image.new("RGB", (1, 1), "blue")).label == "blue"


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "match"),
        [
            (3, "expected an image, got int"),
            (None, "expected an image, got NoneType"),
            (np.zeros((3, 30, 40), dtype=np.uint8), "got an array of shape \\(3, 30, 40\\)"),
            (np.zeros((2, 30, 40, 3), dtype=np.uint8), "got an array of shape"),
            (np.zeros((0, 5, 3), dtype=np.uint8), "got an array of shape"),
            (np.full((5, 5, 3), 128.0), "got values from 128 to 128"),
            (np.full((5, 5, 3), -1), "expected an image, got values"),
            (np.full((5, 5), np.nan), "expected an image, got values"),
            (torch.zeros(2, 3, 5, 5), "got a tensor of shape \\(2, 3, 5, 5\\)"),
            (torch.zeros(5), "got a tensor of shape \\(5,\\)"),
            (b"", "the image can't be read"),
            (b"abc", "the image can't be read: it is not an image"),
        ],
    )
    def test_what_is_no_picture(self, colours: Bundle, given: Any, match: str) -> None:
        with pytest.raises(Failure, match=match):
            colours(given)

    def test_files(self, colours: Bundle, paint: Paint, tmp_path: Path) -> None:
        whole = paint("a.jpg", size=(200, 200)).read_bytes()
        (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "empty.jpg").touch()
        for name, reason in (
            ("cut.jpg", "it is truncated"),
            ("empty.jpg", "it is empty"),
            ("none.jpg", "there is no such file"),
            (".", "it is a folder"),
        ):
            with pytest.raises(Failure, match=reason) as caught:
                colours([tmp_path / name])
            assert "on_bad_file" not in caught.value.help

    def test_heic_the_help_is_to_install_it(self, colours: Bundle, tmp_path: Path) -> None:
        (tmp_path / "a.heic").write_bytes(b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + b"\x00" * 50)
        with pytest.raises(Failure, match="it is a HEIC image") as caught:
            colours(tmp_path / "a.heic")
        assert "pillow-heif" in caught.value.help


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class TestAddresses:
    def test_a_picture_is_fetched(self, colours: Bundle, paint: Paint) -> None:
        folder = paint("sky.png", "blue").parent
        (folder / "page.png").write_text("<html>")
        handler = partial(Silent, directory=str(folder))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}"
            try:
                assert colours(f"{address}/sky.png").label == "blue"
                with pytest.raises(Failure, match="it is not an image"):
                    colours(f"{address}/page.png")
                with pytest.raises(Failure, match="File not found"):
                    colours(f"{address}/none.png")
            finally:
                server.shutdown()

    def test_without_network_it_reports_it(self, colours: Bundle) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(Failure, match="the download failed") as caught:
            colours(f"http://127.0.0.1:{port}/a.jpg")
        assert "give a file" in caught.value.help


def test_bytes_in_memory(colours: Bundle) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (20, 20), GREEN).save(stream, "png")
    assert colours(bytearray(stream.getvalue())).label == "green"
