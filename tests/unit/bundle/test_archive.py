"""A bundle that was changed, cut off or made to do harm is refused, and none of its code runs."""

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from leaven import bundle
from leaven.bundle import Bundle, golden
from leaven.bundle.archive import GOLDEN
from leaven.runtime.failures import Failure

Members = dict[str, bytes]


def members_of(file: Path) -> Members:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(file: Path, members: Mapping[str, bytes], *, sums: bool = True, **more: bytes) -> Path:
    """A bundle of any members, with fitting checksums unless told otherwise."""
    members = {**members, **more}
    if sums:
        named = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        named.pop("checksums.json", None)
        members["checksums.json"] = json.dumps(named).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


@pytest.fixture
def members(colours_file: Path) -> Members:
    return members_of(colours_file)


def refused(file: Path, match: str, *, trust_code: bool = False) -> Failure:
    with pytest.raises(Failure, match=match) as caught:
        bundle.load(file, trust_code=trust_code)
    return caught.value


def test_written_again_as_it_was_it_loads(tmp_path: Path, members: Members) -> None:
    assert isinstance(bundle.load(write(tmp_path / "a.bundle", members)), Bundle)


class TestNoBundle:
    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        refused(tmp_path / "none.bundle", "none.bundle does not exist")

    def test_the_folder_of_a_run_stands_for_the_bundle_in_it(self, tmp_path: Path) -> None:
        (tmp_path / "model.bundle").touch()
        refused(tmp_path, "model.bundle is empty")

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.bundle").touch()
        refused(tmp_path / "a.bundle", "is empty")

    def test_a_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.bundle").write_text("weights")
        refused(tmp_path / "a.bundle", "is not a bundle")

    def test_a_checkpoint(self, tmp_path: Path) -> None:
        torch.save({"a": torch.zeros(2)}, tmp_path / "a.bundle")
        refused(tmp_path / "a.bundle", "is not a bundle")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, tmp_path: Path, members: Members) -> None:
        write(tmp_path / "a.bundle", members).chmod(0)
        refused(tmp_path / "a.bundle", "can't be read")


class TestTruncated:
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_its_end_is_missing(self, tmp_path: Path, colours_file: Path, share: float) -> None:
        whole = colours_file.read_bytes()
        (tmp_path / "a.bundle").write_bytes(whole[: int(len(whole) * share)])
        refused(tmp_path / "a.bundle", "is damaged")

    def test_its_middle_is_missing(self, tmp_path: Path, colours_file: Path) -> None:
        whole = colours_file.read_bytes()
        (tmp_path / "a.bundle").write_bytes(whole[:1500] + whole[2500:])
        refused(tmp_path / "a.bundle", "is damaged")


class TestTampered:
    def test_every_flipped_byte_is_noticed(self, tmp_path: Path, colours_file: Path) -> None:
        """Of the content; the zip's own dates and rights mean nothing."""
        whole = bytearray(colours_file.read_bytes())
        with zipfile.ZipFile(colours_file) as archive:
            for entry in archive.infolist():
                start = entry.header_offset + 30 + len(entry.filename)
                for place in (start, start + entry.file_size // 2, start + entry.file_size - 1):
                    changed = bytearray(whole)
                    changed[place] ^= 1
                    (tmp_path / "a.bundle").write_bytes(changed)
                    refused(tmp_path / "a.bundle", "is damaged")

    @pytest.mark.parametrize("name", ["weights.safetensors", "bundle.json", "README.md", "golden.safetensors"])
    def test_a_member_without_its_checksum(self, tmp_path: Path, members: Members, name: str) -> None:
        members[name] += b" "
        refused(write(tmp_path / "a.bundle", members, sums=False), f"{name} has a wrong checksum")

    @pytest.mark.parametrize("name", ["weights.safetensors", "bundle.json", "golden.safetensors", "checksums.json"])
    def test_a_member_that_is_missing(self, tmp_path: Path, members: Members, name: str) -> None:
        del members[name]
        refused(write(tmp_path / "a.bundle", members, sums=False), "is missing|is not a bundle|does not name")

    def test_checksums_that_name_other_things(self, tmp_path: Path, members: Members) -> None:
        members["lock.json"] = b"{}"
        refused(write(tmp_path / "a.bundle", members, sums=False), "does not list its members")

    @pytest.mark.parametrize("content", [b"[]", b"{", b'{"a": 1}', b"[" * 100_000])
    def test_checksums_that_are_none(self, tmp_path: Path, members: Members, content: bytes) -> None:
        members["checksums.json"] = content
        refused(write(tmp_path / "a.bundle", members, sums=False), "checksums.json")


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "../evil.py",
            "/etc/evil",
            "code/../../evil.py",
            "code/0/../evil.py",
            "code/0/.hidden.py",
            "code/0/a/../b.py",
            "code\\0\\evil.py",
            "C:/evil.py",
            "code/0/evil.so",
            "code/evil.py",
            "weights.pkl",
            "data.pkl",
            "extra/",
            "bundle.json/x",
            "Bundle.json",
        ],
    )
    def test_what_does_not_belong_there_is_refused(self, tmp_path: Path, members: Members, name: str) -> None:
        members[name] = b""
        refused(write(tmp_path / "a.bundle", members), "does not belong in a bundle")

    def test_two_members_of_one_name(self, tmp_path: Path, members: Members) -> None:
        file = write(tmp_path / "a.bundle", members)
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
            archive.writestr("bundle.json", members["bundle.json"])
        refused(file, "bundle.json is in it twice")

    @pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFCHR])
    def test_links_and_devices(self, tmp_path: Path, members: Members, kind: int) -> None:
        file = tmp_path / "a.bundle"
        with zipfile.ZipFile(write(file, members), "a") as archive:
            link = zipfile.ZipInfo("lock.json")
            link.external_attr = (kind | 0o777) << 16
            archive.writestr(link, "/etc/passwd")
        refused(file, "lock.json is not a regular file")


class TestBombs:
    def test_nothing_may_be_compressed(self, tmp_path: Path, members: Members) -> None:
        file = tmp_path / "a.bundle"
        with zipfile.ZipFile(write(file, members), "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("lock.json", b"0" * 10_000_000)
        refused(file, "lock.json is compressed")

    def test_sizes_that_are_a_lie(self, tmp_path: Path, members: Members) -> None:
        whole = write(tmp_path / "a.bundle", members).read_bytes()
        entry = whole.rindex(b"README.md")
        header = whole.rindex(b"PK\x01\x02", 0, entry)
        huge = struct.pack("<II", 2**32 - 10, 2**32 - 10)
        (tmp_path / "a.bundle").write_bytes(whole[: header + 20] + huge + whole[header + 28 :])
        refused(tmp_path / "a.bundle", "is damaged")

    def test_members_that_overlap(self, tmp_path: Path, members: Members) -> None:
        """Entries of the table of contents that all point at the same bytes."""
        text = b"#" * 10_000_000
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
            archive.writestr("code/0/a.py", text)
            first = archive.infolist()[-1]
            for number in range(100):
                again = zipfile.ZipInfo(f"code/0/a{number}.py")
                for field in ("header_offset", "file_size", "compress_size", "CRC", "flag_bits"):
                    setattr(again, field, getattr(first, field))
                archive.filelist.append(again)
                archive.NameToInfo[again.filename] = again
        (tmp_path / "a.bundle").write_bytes(stream.getvalue())
        refused(tmp_path / "a.bundle", "members are larger than the file")

    def test_a_text_that_is_too_long(self, tmp_path: Path, members: Members) -> None:
        members["lock.json"] = b"0" * (17 * 2**20)
        refused(write(tmp_path / "a.bundle", members), "lock.json is larger than 16 MB")

    def test_too_many_members(self, tmp_path: Path, members: Members) -> None:
        members |= {f"code/0/a{number}.py": b"" for number in range(1100)}
        refused(write(tmp_path / "a.bundle", members), "members")


def changed(members: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    """The members with another manifest and fitting checksums: what an attacker can make."""
    manifest = json.loads(members["bundle.json"])
    change(manifest)
    return {**members, "bundle.json": json.dumps(manifest).encode()}


class TestManifests:
    def test_a_newer_format_has_a_help(self, tmp_path: Path, members: Members) -> None:
        newer = changed(members, lambda manifest: manifest.update(format=4, built_by="?"))
        assert "upgrade" in refused(write(tmp_path / "a.bundle", newer), "written by a newer Leaven").help

    def test_an_older_format(self, tmp_path: Path, members: Members) -> None:
        older = changed(members, lambda manifest: manifest.update(format=2))
        refused(write(tmp_path / "a.bundle", older), "written by an older Leaven")

    def test_another_task(self, tmp_path: Path, members: Members) -> None:
        other = changed(members, lambda manifest: manifest.update(task="translation"))
        refused(write(tmp_path / "a.bundle", other), "is for translation")

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format": 3}', b"1e999"])
    def test_what_can_not_be_read(self, tmp_path: Path, members: Members, content: bytes) -> None:
        members["bundle.json"] = content
        refused(write(tmp_path / "a.bundle", members), "is damaged")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("built_by", {}),
            ("built_by", {"by": "eval", "name": "print(1)"}),
            ("built_by", {"by": "components", "parts": [1, 2]}),
            ("task", "../classification"),
            ("target", 3),
            ("target", {"names": 3, "column": "label"}),
            ("target", {"names": ["red", "green"], "column": "label"}),
            ("takes", {"kind": "pickle"}),
            ("takes", {"kind": "image", "mode": "RGB", "size": ["x"]}),
            ("shape", "abc"),
            ("shape", [3, 1_000_000, 1_000_000]),
            ("scores", {"a": "b"}),
            ("versions", []),
            ("preprocess", {"step": 3}),
            ("preprocess", ["Resize"]),
            ("preprocess", {"step": "Compose", "arguments": {"transforms": [{"dtype": "load"}]}}),
        ],
    )
    def test_values_of_other_kinds(self, tmp_path: Path, members: Members, key: str, value: object) -> None:
        other = changed(members, lambda manifest: manifest.update({key: value}))
        refused(write(tmp_path / "a.bundle", other), "is damaged|can't be made|can't be used|a task that")

    @pytest.mark.parametrize(
        "built_by",
        [
            {"by": "timm", "name": "hf-hub:somebody/evil", "arguments": {}},
            {"by": "timm", "name": "resnet10t", "arguments": {"checkpoint_path": "/tmp/evil.pth"}},
            {"by": "timm", "name": "resnet10t", "arguments": {"pretrained": True}},
            {"by": "torchvision", "name": "resnet18", "arguments": {"weights": "DEFAULT"}},
            {"by": "torchvision", "name": "raft_small", "arguments": {}},
            {"by": "components", "parts": [["..runtime.weights.read_weights", {"file": "x"}]]},
            {"by": "components", "parts": [["Tensor", {}]]},
        ],
    )
    def test_only_listed_builders_are_called(self, tmp_path: Path, members: Members, built_by: dict[str, Any]) -> None:
        other = changed(members, lambda manifest: manifest.update(built_by=built_by))
        refused(write(tmp_path / "a.bundle", other), "has no|built without|there is no component|damaged")

    def test_a_model_that_no_technique_changed_is_not_called_changed(self, tmp_path: Path, members: Members) -> None:
        """What a technique's code builds is trusted or refused as a whole; without code, nothing would be asked."""
        other = changed(
            members, lambda told: told.update(built_by={"by": "changed", "first": told["built_by"], "changes": []})
        )
        refused(write(tmp_path / "a.bundle", other), "damaged")

    def test_other_weights_do_not_fit(self, tmp_path: Path, members: Members) -> None:
        members["weights.safetensors"] = safetensors.torch.save({"a": torch.zeros(2)})
        refused(write(tmp_path / "a.bundle", members), "is missing from the weights")

    @pytest.mark.parametrize("name", ["weights.safetensors", "golden.safetensors"])
    @pytest.mark.parametrize("content", [b"", b"\x80\x04", b"\xff" * 64, safetensors.torch.save({})])
    def test_tensors_that_are_none(self, tmp_path: Path, members: Members, name: str, content: bytes) -> None:
        members[name] = content
        refused(write(tmp_path / "a.bundle", members), "is damaged|is missing from the weights")

    def test_other_outputs_than_when_it_was_saved(self, tmp_path: Path, members: Members) -> None:
        weights = safetensors.torch.load(members["weights.safetensors"])
        members["weights.safetensors"] = safetensors.torch.save({k: v * 1.2 for k, v in weights.items()})
        other = changed(members, lambda manifest: manifest["versions"].update(torch="1.0"))
        failure = refused(write(tmp_path / "a.bundle", other), "has other outputs than when it was saved")
        assert "pip install torch==1.0" in failure.help

    def test_outputs_may_differ_in_their_last_digits(self, tmp_path: Path, members: Members) -> None:
        weights = safetensors.torch.load(members["weights.safetensors"])
        members["weights.safetensors"] = safetensors.torch.save({k: v * 1.00001 for k, v in weights.items()})
        assert bundle.load(write(tmp_path / "a.bundle", members))


class TestCodeIsNotRun:
    @pytest.mark.parametrize(
        "step",
        [
            {"code": {"module": "os", "name": "mkdir"}, "first": ["evil"], "with": {}},
            {"code": {"module": "os", "name": "mkdir"}, "made_with": {"path": "evil"}},
            {"code": {"file": "code/0/evil.py", "name": "x"}, "first": [], "with": {}},
            {
                "step": "Lambda",
                "arguments": {"lambd": {"code": {"module": "os", "name": "mkdir"}, "first": [], "with": {}}},
            },
            {
                "step": "Compose",
                "arguments": {
                    "transforms": [{"code": {"module": "os", "name": "mkdir"}, "made_with": {"path": "evil"}}]
                },
            },
        ],
    )
    def test_of_steps(
        self, tmp_path: Path, members: Members, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        other = changed(members, lambda manifest: manifest.update(preprocess=step))
        other["code/0/evil.py"] = b"import os; os.mkdir('evil')"
        refused(write(tmp_path / "a.bundle", other), "needs code that comes with it")
        assert not (tmp_path / "evil").exists()

    def test_of_models(self, tmp_path: Path, members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        own = {"by": "own", "place": "code/0/evil.py", "name": "Net", "arguments": {}, "head": None}
        other = changed(members, lambda manifest: manifest.update(built_by=own))
        other["code/0/evil.py"] = b"import os; os.mkdir('evil')"
        file = write(tmp_path / "a.bundle", other)
        refused(file, "needs code that comes with it")
        assert not (tmp_path / "evil").exists()
        refused(file, "there is no Net", trust_code=True)
        assert (tmp_path / "evil").exists()

    def test_code_that_is_not_needed_does_not_run(
        self, tmp_path: Path, members: Members, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        members["program.py"] = members["code/0/evil.py"] = b"import os; os.mkdir('evil')"
        bundle.load(write(tmp_path / "a.bundle", members), trust_code=True)
        assert not (tmp_path / "evil").exists()

    def test_classes_that_are_no_transforms_are_not_made(self, tmp_path: Path, members: Members) -> None:
        for name in ("functional", "Path", "__builtins__", "query_size", "InterpolationMode"):
            other = changed(members, lambda m, name=name: m.update(preprocess={"step": name, "arguments": {}}))
            refused(write(tmp_path / "a.bundle", other), "there is no transform")


class TestExhausting:
    """What would take minutes or gigabytes is refused before it does."""

    @pytest.mark.parametrize(
        ("built_by", "why"),
        [
            ({"name": "vit_tiny_patch16_224", "arguments": {"depth": 10**6, "embed_dim": 3}}, "modules"),
            ({"name": "resnet18", "arguments": {"num_classes": 10**9}}, "numbers"),
            ({"name": "vit_tiny_patch16_224", "arguments": {"embed_dim": 30_000}}, "numbers"),
            ({"name": "vit_tiny_patch16_224", "arguments": {"img_size": 100_000}}, "numbers"),
        ],
        ids=str,
    )
    def test_models(self, tmp_path: Path, members: Members, built_by: dict[str, Any], why: str) -> None:
        refused(
            write(
                tmp_path / "a.bundle",
                changed(members, lambda manifest: manifest.update(built_by={"by": "timm", **built_by})),
            ),
            why,
        )

    @pytest.mark.parametrize(
        "steps",
        [
            {"step": "Resize", "arguments": {"size": 60_000}},
            {"step": "Pad", "arguments": {"padding": [0, 10**6]}},
            {"step": "Compose", "arguments": {"transforms": [{"step": "ToImage", "arguments": {}}] * 300}},
        ],
        ids=lambda step: step["step"],
    )
    def test_transforms(self, tmp_path: Path, members: Members, steps: dict[str, Any]) -> None:
        refused(
            write(tmp_path / "a.bundle", changed(members, lambda manifest: manifest.update(preprocess=steps))),
            "transform",
        )

    def test_a_size_that_every_image_is_brought_to(self, tmp_path: Path, members: Members) -> None:
        takes = {"kind": "image", "mode": "RGB", "size": [10**6, 10**6]}
        other = changed(members, lambda manifest: manifest.update(takes=takes))
        refused(write(tmp_path / "a.bundle", other), "it takes images of more than 4096 pixels a side")

    def test_an_adapters_rank(self, tmp_path: Path, members: Members) -> None:
        adapter = {"kind": "lora", "layers": ["2"], "rank": 10**9}
        over = {"weights": {"starter": "x"}, "new": [], "sha256": "", "adapters": [adapter]}
        refused(write(tmp_path / "a.bundle", changed(members, lambda manifest: manifest.update(over=over))), "rank")

    @pytest.mark.parametrize(
        ("inputs", "outputs", "why"),
        [
            ([torch.zeros(4, 4, 3, dtype=torch.uint8)] * 20, torch.zeros(20, 3), "20 golden inputs"),
            ([torch.zeros(1, 5000, 3, dtype=torch.uint8)], torch.zeros(1, 3), "shape"),
            ([torch.zeros(20, 20, 3, dtype=torch.uint8)], torch.zeros(1), "dimensions"),
        ],
        ids=["many", "flat", "outputs of one dimension"],
    )
    def test_golden_inputs(
        self, tmp_path: Path, members: Members, inputs: list[torch.Tensor], outputs: torch.Tensor, why: str
    ) -> None:
        refused(
            write(tmp_path / "a.bundle", {**members, GOLDEN: golden.pack([one.clone() for one in inputs], outputs)}),
            why,
        )


def test_pipes_and_devices_are_no_bundles(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/proc/self/mem"), Path("x" * 5000)):
        with pytest.raises(Failure, match=r"can't be read|not a bundle"):
            bundle.load(path)


@pytest.mark.parametrize("given", ["runs/phots", "photos"])
def test_a_misspelt_run_and_the_folder_of_its_images_get_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "runs" / "photos").mkdir(parents=True)
    (tmp_path / "photos" / "ants").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Failure) as refusal:
        bundle.load(Path(given))
    assert refusal.value.help == "did you mean runs/photos?"
