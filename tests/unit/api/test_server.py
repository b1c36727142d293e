"""The lab's API by a real server: what it answers, whom it refuses, and which files it reaches."""

import contextlib
import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.api.served_lab import PREFIX, ServedLab

RED = {"file": "red.png"}


def asked(**more: Any) -> dict[str, Any]:
    return {"models": ["colours.bundle"], "input": RED, **more}


# -- answers


@pytest.mark.slow
def test_a_photo_is_changed_and_two_models_answer(lab: ServedLab) -> None:
    edits = [{"edit": "hue", "shift": 0.33333}]
    found = lab.post("/predict", asked(models=["colours.bundle", "others.bundle"], edits=edits))
    first, second = found["answers"]
    assert (first["model"], first["answer"]) == (
        "colours.bundle",
        {"before": "red", "after": "green", "flipped": True},
    )
    assert second["answer"]["after"] == "b"
    assert found["agreement"] == "colours.bundle answers green; others.bundle answers b"
    assert found["recipe"] == "color_jitter(hue=0.3333)"
    loaded = {one["models"][0]: one["state"] for one in lab.get("/models")["loaded"]}
    assert loaded == {"colours.bundle": "idle", "others.bundle": "idle"}


@pytest.mark.slow
def test_what_is_copied_as_python_gives_the_same_answer(lab: ServedLab) -> None:
    found = lab.post("/predict", asked(edits=[{"edit": "brightness", "factor": 0.3}, {"edit": "rotate", "degrees": 7}]))
    (answer,) = found["answers"]
    assert said(found["python"]) == {"label": answer["after"]["label"], "confidence": answer["after"]["confidence"]}


@pytest.mark.slow
def test_an_upload_is_asked_about_and_copied_as_python(lab: ServedLab, folder: Path) -> None:
    content = (folder / "green.png").read_bytes()
    sent = lab.post("/uploads", content, Content_Type="application/octet-stream")
    assert (sent["format"], sent["width"], sent["height"]) == ("PNG", 40, 40)
    found = lab.post("/predict", asked(input={"upload": sent["upload"]}))
    (answer,) = found["answers"]
    assert answer["after"]["label"] == "green"
    assert said(found["python"]) == {"label": "green", "confidence": answer["after"]["confidence"]}


def said(program: str) -> dict[str, Any]:
    """The label and the confidence in the `answers` of a program."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, names)
    (answer,) = names["answers"]
    return {"label": answer.label, "confidence": answer.confidence}


@pytest.mark.slow
def test_an_edit_is_varied_until_the_answer_flips(lab: ServedLab) -> None:
    found = lab.post("/vary", asked(vary="hue", between=[-0.4, 0.4], steps=9))
    (curve,) = found["curves"]
    assert found["values"][0] == -0.4
    assert {flip["after"] for flip in curve["flips"]} == {"green", "blue"}
    assert lab.post("/flip", {"model": "colours.bundle", "input": RED, "names": ["pad"]}) == {"flip": None}


@pytest.mark.slow
def test_an_attribution_comes_from_coarse_to_fine(lab: ServedLab) -> None:
    lines = lab.post("/attribute", {"model": "colours.bundle", "input": RED})
    assert len(lines) > 3
    assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert (lines[-1]["target"], lines[-1]["crop"]) == ("red", [4.0, 4.0, 36.0, 36.0])


@pytest.mark.slow
def test_layers_are_listed_read_and_switched_off(lab: ServedLab) -> None:
    found = lab.get("/layers?model=colours.bundle")
    assert [one["path"] for one in found["items"] if one["parameters"]] == ["", "0", "0.conv", "2"]
    question = {"model": "colours.bundle", "input": RED, "layers": "0.conv"}
    (reading,) = lab.post("/layers/read", question)
    assert reading["output"]["shape"] == [1, 3, 16, 16]
    changed = lab.post("/layers/change", question)
    assert changed["answer"]["before"] == "red"
    assert changed["after"]["confidence"] == pytest.approx(1 / 3)
    again = lab.post("/predict", asked())
    assert again["answers"][0]["after"] == changed["before"]


def test_pictures_are_shown_at_their_size(lab: ServedLab) -> None:
    small = Image.open(io.BytesIO(lab.get("/thumbnail?file=red.png&size=16")))
    assert (small.size, small.format) == ((16, 16), "JPEG")


@pytest.mark.slow
def test_a_changed_picture_is_shown(lab: ServedLab) -> None:
    body = {"input": RED, "edits": [{"edit": "hue", "shift": 0.33333}], "size": 32}
    changed = Image.open(io.BytesIO(lab.post("/picture", body)))
    red, green, blue = changed.convert("RGB").getpixel((16, 16))  # type: ignore[misc]
    assert (changed.size, green > 200, red + blue < 60) == ((32, 32), True, True)


@pytest.mark.slow
def test_a_check_is_saved_and_a_question_noted(lab: ServedLab, folder: Path) -> None:
    saved = lab.post("/checks", {"model": "colours.bundle", "input": RED, "edits": [{"edit": "pad", "pixels": 2}]})
    assert saved == {"file": "colours.checks", "check": 'expect "red.png" padded by 2 px is "red"'}
    assert saved["check"] in (folder / "colours.checks").read_text()
    lab.post("/predict", asked(journal=True, edits=[{"edit": "grey"}]))
    page = lab.get("/journal")
    assert (page["total"], page["items"][0]["edits"]) == (1, [{"edit": "grey"}])


@pytest.mark.slow
def test_two_models_are_compared(lab: ServedLab) -> None:
    found = lab.post("/compare", {"a": "colours.bundle", "b": "others.bundle"})
    assert (found["a"], found["b"]) == ("colours.bundle", "others.bundle")
    assert found["notes"][0].startswith("answers are not compared")
    assert len(found["layers"]) == 2


# -- recipes


def test_reports_count_in_code_units_of_utf16(lab: ServedLab) -> None:
    text = '# 😀😀\nmodel resnt18()  # é\nlet a = "😀"; data digitz()\n'
    found = lab.post("/recipes/check", {"text": text})
    in_utf16 = text.encode("utf-16-le")
    for report in found["diagnostics"]:
        for spot in report["spots"]:
            start, end = (2 * spot[edge]["offset"] for edge in ("start", "end"))
            assert in_utf16[start:end].decode("utf-16-le") in ("resnt18", "digitz", "a")
    edits = [edit for report in found["diagnostics"] for edit in report["edits"]]
    assert [(edit["text"], edit["start"]["line"]) for edit in edits if edit["text"]] == [("resnet18", 2), ("digits", 3)]
    line = text.splitlines()[2]
    assert edits[-1]["start"]["column"] == line.index("digitz") + 1 + 1  # an emoji is two


def test_a_recipe_is_completed_and_its_names_explained(lab: ServedLab) -> None:
    text = "# 😀\nmodel conv(8) -> li"
    found = lab.post("/recipes/complete", {"text": text, "offset": len(text) + 1})
    assert (found["start"], [one["label"] for one in found["items"]]) == (len(text) - 1, ["linear"])
    card = lab.post("/recipes/hover", {"text": text, "offset": text.index("conv") + 1})["card"]
    assert card["name"] == "conv"
    assert lab.post("/recipes/format", {"text": "train   epochs=3"}) == {"ok": True, "text": "train epochs=3\n"}
    lab_page = lab.get("/catalog?words=mixup&kind=technique")
    assert [one["name"] for one in lab_page["items"]] == ["mixup"]
    assert lab.get("/explain?word=unknown-layer")["text"].startswith("# unknown-layer")


@pytest.mark.slow
def test_a_recipe_is_planned_and_compiled(lab: ServedLab) -> None:
    recipe = {"text": lab.get("/recipes/file?file=small.leaven")["text"]}
    assert lab.post("/recipes/plan", recipe)["text"].startswith("recipe: one phase")
    assert "def main()" in lab.post("/recipes/program", recipe)["text"]
    assert lab.post("/recipes/show", recipe)["recipe"]["data"]["outputs"] == 10


# -- safety


@pytest.mark.parametrize(
    ("body", "code", "headline"),
    [
        (asked(input={"file": "/etc/passwd"}), 403, "`/etc/passwd` is not below the folders of the lab"),
        (asked(input={"file": "../wild.py"}), 403, "`../wild.py` is not below the folders of the lab"),
        (asked(input={"file": "link.png"}), 403, "`link.png` is not below the folders of the lab"),
        (asked(input={"file": "http://localhost/a.png"}), 404, "there is no file `http://localhost/a.png`"),
        (asked(input={"file": "none.png"}), 404, "there is no file `none.png`"),
        (asked(input={"file": "small.leaven"}), 400, "small.leaven is not an image that can be read"),
        (asked(input={"upload": "../../x"}), 404, "there is no upload `../../x`"),
        (asked(input={"file": "\0"}), 400, "that is not a path"),
        (asked(input={"file": "bomb.png"}), 400, "bomb.png has 60,000 × 60,000 pixels, more than 50,000,000"),
        (asked(input={"file": "a.eps"}), 400, "a.eps has the format EPS"),
        (asked(edits=[{"edit": "paste", "file": "/etc/passwd"}]), 403, "`/etc/passwd` is not below"),
        (asked(models=["nobody.bundle"]), 404, "there is no file `nobody.bundle`"),
        (asked(modles=[]), 422, "`modles`: Extra inputs are not permitted"),
    ],
)
def test_what_is_out_of_reach_or_wrong_is_refused(
    lab: ServedLab, hostile: None, body: Any, code: int, headline: str
) -> None:
    found = lab.refused("/predict", body)
    assert found[0] == code
    assert found[1].startswith(headline)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "headline"),
    [
        (asked(input={"text": "/etc/passwd"}), "the model takes images, and the input is a text"),
        (asked(edits=[{"edit": "rotate"}]), "`rotate` needs `degrees`"),
        (asked(models=["pickle.bundle"]), "pickle.bundle is not a bundle"),
    ],
)
def test_a_model_refuses_what_it_does_not_take(
    lab: ServedLab, folder: Path, hostile: None, body: Any, headline: str
) -> None:
    code, found = lab.refused("/predict", body)
    assert (code, headline in found) == (400, True), found
    assert not list(folder.rglob("pwned"))


@pytest.fixture(scope="module")
def hostile(folder: Path) -> None:
    """Files of strangers: a link out of the folder, a decompression bomb, a program for a printer, a pickle."""
    (folder / "link.png").symlink_to("/etc/passwd")
    (folder / "bomb.png").write_bytes(bomb())
    (folder / "a.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nquit\n")
    (folder / "pickle.bundle").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")


def bomb() -> bytes:
    """A PNG of 3.6 gigapixels in a few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    size = (60_000).to_bytes(4, "big") * 2
    pixels = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\1\0\0\0\0") + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ('model resnet18()\ndata folder("/etc")', '"/etc" is not below the folders of the lab'),
        ('extends "../outside.leaven"', '"../outside.leaven" is not below the folders of the lab'),
        ('import "mine.py" as mine\nmodel mine.Net()\ndata digits()', 'the recipe uses Python code ("mine.py")'),
    ],
)
def test_a_recipe_reads_nothing_elsewhere_and_runs_no_code(
    lab: ServedLab, folder: Path, text: str, headline: str
) -> None:
    (folder.parent / "outside.leaven").write_text("train epochs=1")
    (folder / "mine.py").write_text("open('pwned', 'w')")
    code, found = lab.refused("/recipes/plan", {"text": text})
    assert (code, found.startswith(headline)) == (403, True)
    lab.ask("POST", f"{PREFIX}/recipes/check", {"text": text})
    assert not list(folder.rglob("pwned"))


def test_an_upload_that_is_too_long_or_no_image_is_not_kept(lab: ServedLab, cache: Path) -> None:
    before = sorted((cache / "lab" / "uploads").glob("*"))
    kind = {"Content_Type": "application/octet-stream"}
    assert lab.ask("POST", f"{PREFIX}/uploads", bomb(), **kind)[0] == 400
    assert lab.ask("POST", f"{PREFIX}/uploads", b"<svg onload=alert(1)>", **kind)[0] == 400
    assert lab.ask("POST", f"{PREFIX}/uploads", bytes(33 * 2**20), **kind)[0] == 413
    assert sorted((cache / "lab" / "uploads").glob("*")) == before


def test_strangers_are_refused(lab: ServedLab) -> None:
    path = f"{PREFIX}/models"
    assert ServedLab(lab.address, None, 0).ask("GET", path)[0] == 401
    assert ServedLab(lab.address, "wrong", 0).ask("GET", path)[0] == 401
    assert lab.ask("GET", path, Host="evil.example")[0] == 421
    assert lab.ask("GET", path, Origin="http://evil.example")[0] == 403
    assert lab.ask("POST", f"{PREFIX}/predict", b"[" * 70_000, Content_Type="application/json")[0] == 413
    assert lab.ask("POST", f"{PREFIX}/predict", b"[" * 60_000, Content_Type="application/json")[0] in (400, 422)
    assert lab.ask("GET", f"{path}?limt=3") == (
        422,
        {"error": "there is no parameter `limt`; there are: offset, limit", "help": ""},
    )


def test_jobs_are_served_by_the_same_server(lab: ServedLab) -> None:
    assert lab.get("/jobs") == []
    assert [one["name"] for one in lab.get("/environments")] == ["local"]
    assert lab.ask("GET", f"{PREFIX}/jobs/nobody")[0] == 404


def test_the_server_itself_stays_small(lab: ServedLab) -> None:
    """It would have torch in it otherwise."""
    assert lab.memory() < 200_000_000


def test_importing_the_lab_imports_no_web_library() -> None:
    web = "{'fastapi', 'starlette', 'uvicorn', 'pydantic', 'h11'}"
    program = f"import leaven.lab, leaven.lab.asked.recipes, sys; print(sorted({web} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert json.loads(done.stdout) == []
