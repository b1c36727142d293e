"""A bundle of a text model that was made to do harm is refused in a line, before it takes memory or asks a network."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tests import tiny_bert
from tests.unit.bundle.test_archive import Members, changed, members_of, refused, write

from leaven import bundle
from leaven.bundle import limits, tried
from leaven.bundle.building import Transformers
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.failures import Caution, Failure
from leaven.runtime.model.text import from_configuration, text_model
from leaven.tasks.classification import Classes

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a tiny BERT."""
    folder = tmp_path_factory.mktemp("texts")
    bert = tiny_bert.make(folder / "bert")
    model = text_model(bert, 2, pretrained=True)
    described = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = {"model_type": "bert", "num_labels": 2, "vocab_size": model.config.vocab_size, **described}
    return bundle.save(
        folder / "reviews.bundle",
        model,
        built_by=Transformers("BertForSequenceClassification", {**config, "max_position_embeddings": 64}),
        preprocess=Tokenizer(bert),
        target=Classes(("bad", "good")),
        example="it was good",
    )


@pytest.fixture
def members(reviews: Path) -> Members:
    return members_of(reviews)


def test_as_it_was_saved_it_predicts(reviews: Path) -> None:
    assert bundle.load(reviews)("it was good").label in ("bad", "good")


def with_tokenizer(members: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    rules = json.loads(members["tokenizer/tokenizer.json"])
    change(rules)
    return {**members, "tokenizer/tokenizer.json": json.dumps(rules).encode()}


def replaced(old: str, new: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def chain(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(rules)}


FIXED = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}


class TestTokenizers:
    """What a stranger's tokenizer does, it does in a process of its own first."""

    @pytest.mark.parametrize(
        ("rules", "why"),
        [
            (chain(*[replaced("a", "a" * 100)] * 6), "makes texts endless"),
            (chain(*[replaced("xyzzy", "xyzzy" * 9)] * 2), "makes texts up to 81 times as long"),
            (chain(*[replaced("", "b" * 3, "Regex")] * 3), "makes texts up to 27 times as long"),
            (chain(*[{"type": "ByteLevel"}] * 30), "makes texts endless"),
            (replaced("(a+)+$", "b", "Regex"), "can't be used: .*retry-limit"),
            (replaced("(a", "b", "Regex"), "can't be used: .*parenthesis"),
            ({"type": "Prepend", "prepend": "a" * 10_000}, "adds 10,000 letters to every text"),
        ],
        ids=["chain", "one word", "empty", "bytes", "slow regex", "bad regex", "beginning"],
    )
    def test_rules_that_make_texts_long(
        self, tmp_path: Path, members: Members, rules: dict[str, Any], why: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        other = with_tokenizer(members, lambda tokenizer: tokenizer.update(normalizer=rules))
        failure = refused(write(tmp_path / "a.bundle", other), f"the tokenizer of a.bundle {why}")
        assert "\n" not in failure.headline
        assert capfd.readouterr().err == ""  # neither a traceback nor a panic

    def test_memory_is_limited(self, tmp_path: Path, members: Members) -> None:
        """A rule that reads as if texts stayed as long as they are: each gets 100 million tokens at its start."""
        start = {"id": "[CLS]", "ids": [2] * 10**5, "tokens": ["x"] * 10**5}
        single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 1000
        pair = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
        template = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {"[CLS]": start}}
        other = with_tokenizer(members, lambda tokenizer: tokenizer.update(post_processor=template))
        refused(write(tmp_path / "a.bundle", other), "the tokenizer of a.bundle needs more than 1 GB of memory")

    def test_what_pads_every_text_is_not_used(self, tmp_path: Path, members: Members) -> None:
        padding = {"strategy": {"Fixed": 10**12}, **FIXED}
        other = with_tokenizer(members, lambda tokenizer: tokenizer.update(padding=padding))
        loaded = bundle.load(write(tmp_path / "a.bundle", other))
        assert len(loaded.prepare("it was good")["input_ids"]) < 10

    @pytest.mark.parametrize(("length", "padding"), [(10**12, "longest"), (10**9, "max_length"), (-1, "longest")])
    def test_lengths(self, tmp_path: Path, members: Members, length: int, padding: str) -> None:
        arguments = {"max_length": length, "padding": padding}
        other = changed(members, lambda manifest: manifest["preprocess"].update(arguments=arguments))
        refused(write(tmp_path / "a.bundle", other), f"its texts have {length:,} tokens")

    def test_a_panic_on_a_text_is_a_failure(self, tmp_path: Path, members: Members) -> None:
        """The rule is harmless but for a text that only the user has."""
        rule = replaced("(z+)+Q", "b", "Regex")
        other = with_tokenizer(members, lambda tokenizer: tokenizer.update(normalizer=rule))
        loaded = bundle.load(write(tmp_path / "a.bundle", other))
        with pytest.raises(Failure, match="the tokenizer fails on a text"):
            loaded("z" * 50)

    def test_of_a_very_long_text_only_the_beginning_is_read(self, reviews: Path) -> None:
        model = bundle.load(reviews)
        with pytest.warns(Caution, match="more than 64 tokens"):
            short = model.prepare("good " * 1000)["input_ids"]
        with pytest.warns(Caution, match="more than 64 tokens"):
            assert model.prepare("good " * 4_000_000)["input_ids"].tolist() == short.tolist()

    def test_only_settings_that_change_tokens_are_used(self, tmp_path: Path, members: Members, reviews: Path) -> None:
        told = {
            "auto_map": {"AutoTokenizer": ["somebody/evil--code.Evil", None]},
            "tokenizer_class": "pipeline",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            **dict.fromkeys(("tokenizer_file", "vocab_file", "name_or_path"), "/etc/passwd"),
            **{"model_max_length": 10**30, "chat_template": "{{ 1 }}", "padding_side": "top"},
        }
        members["tokenizer/tokenizer_config.json"] = json.dumps(told).encode()
        loaded = bundle.load(write(tmp_path / "a.bundle", members))
        found, expected = (model("it was good").probabilities for model in (loaded, bundle.load(reviews)))
        assert found == pytest.approx(expected)


class TestConfigurations:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("num_labels", 10**9),
            ("num_labels", 10**30),
            ("num_labels", "2"),
            ("num_hidden_layers", 10**6),
            ("vocab_size", 10**12),
            ("max_position_embeddings", 2**21),
            ("hidden_size", 2**20),
            ("intermediate_size", 2**20),
        ],
    )
    def test_sizes_that_its_weights_do_not_have(
        self, tmp_path: Path, members: Members, name: str, value: object
    ) -> None:
        other = changed(members, lambda manifest: manifest["built_by"]["config"].update({name: value}))
        refused(write(tmp_path / "a.bundle", other), "a.bundle is damaged: (its model has|the `)")

    def test_empty_weights_have_no_sides(self) -> None:
        with pytest.raises(limits.TooLarge, match="1000000000 outputs"):
            limits.check_configuration({"num_labels": 10**9}, {"a": torch.empty(0, 2**62), "b": torch.empty(2, 16)})

    def test_only_the_architecture_is_believed(self, tmp_path: Path, members: Members) -> None:
        kernel = "somebody/evil-kernel"
        told = {
            **{"attn_implementation": kernel, "_attn_implementation": kernel, "experts_implementation": kernel},
            **{"_attn_implementation_internal": kernel, "per_layer_config": {"0": {"attn_implementation": kernel}}},
            "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
            "auto_map": {"AutoModelForSequenceClassification": "somebody/evil--code.Evil"},
            "custom_pipelines": {"evil": {"impl": "evil.Evil"}},
            "name_or_path": "somebody/evil",
            **{"output_attentions": True, "output_hidden_states": True, "return_dict": False, "dtype": "load"},
        }
        other = changed(members, lambda manifest: manifest["built_by"]["config"].update(told))
        config: Any = bundle.load(write(tmp_path / "a.bundle", other)).model.config
        assert config._attn_implementation == "sdpa"
        assert "evil" not in str(vars(config))
        assert (config.output_attentions, config.output_hidden_states) == (False, False)
        assert not hasattr(config, "quantization_config")


def hostile(folder: Path, bert: Path, config: dict[str, Any], **settings: Any) -> Path:
    """A bundle of a tiny model, some of whose settings were changed afterwards."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 66, "num_labels": 2}
    config = {**sizes, "vocab_size": 120, "pad_token_id": 0, **config}
    saved = bundle.save(
        folder / "harmless.bundle",
        from_configuration(config),
        built_by=Transformers("Text", config),
        preprocess=Tokenizer(bert),
        target=Classes(("bad", "good")),
        example="it was good",
    )
    change = changed(members_of(saved), lambda manifest: manifest["built_by"]["config"].update(settings))
    return write(folder / "a.bundle", change)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert.make(tmp_path_factory.mktemp("bert"))


GPT_NEO = {"model_type": "gpt_neo", "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
FNET = {"model_type": "fnet", "num_hidden_layers": 2}
LONGFORMER = {"model_type": "longformer", "num_hidden_layers": 2, "num_attention_heads": 2, "attention_window": [4, 4]}


class TestTrials:
    """What a model takes is seen only when it is built and run: that is done in a process of its own first."""

    def test_lists_without_an_end(self, tmp_path: Path, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "TRIAL_MEMORY", 2**29)
        file = hostile(tmp_path, bert, GPT_NEO, attention_types=[[["global"] * 1000, 2**20]])
        refused(file, r"a.bundle is damaged: its model needs more than 0.53\d* GB of memory, far more than its weights")

    def test_tables_that_no_weights_are_for(self, tmp_path: Path, bert: Path) -> None:
        file = hostile(tmp_path, bert, FNET, use_tpu_fourier_optimizations=True, tpu_short_seq_length=20_000)
        refused(file, "a.bundle is damaged: its model needs more than 4.03 GB of memory")

    def test_texts_that_are_padded_without_an_end(self, tmp_path: Path, bert: Path) -> None:
        file = hostile(tmp_path, bert, LONGFORMER, attention_window=[2**20, 2**20])
        refused(file, "a.bundle is damaged: its model needs more than 4.03 GB of memory")

    def test_what_can_not_be_built(self, tmp_path: Path, bert: Path) -> None:
        refused(hostile(tmp_path, bert, LONGFORMER, attention_window=[5, 7]), "a.bundle: Text can't be built: .* even")

    @pytest.mark.slow
    def test_numbers_of_tokens(self, tmp_path: Path, members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever copies the tokenizer goes through all numbers up to the largest."""
        monkeypatch.setattr(limits, "TRIAL_SECONDS", 2)
        other = with_tokenizer(members, lambda tokenizer: tokenizer["model"]["vocab"].update(xyzzy=4 * 10**9))
        refused(write(tmp_path / "a.bundle", other), "a.bundle takes more than 2 seconds to be built")

    @pytest.mark.slow
    def test_time(self, tmp_path: Path, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "TRIAL_SECONDS", 1)
        file = hostile(tmp_path, bert, GPT_NEO, attention_types=[[["global"], 2**20]] * 200)
        refused(file, "a.bundle takes more than 1 seconds to be built and to compute a few outputs")

    def test_what_ended_well_or_was_saved_here_is_not_tried_again(
        self, tmp_path: Path, reviews: Path, members: Members, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tries: list[str] = []
        run = tried.run_limited

        def counted(words: Sequence[str], *rest: Any) -> tuple[str, str]:
            tries.append(words[-2])
            return run(words, *rest)

        monkeypatch.setattr(tried, "run_limited", counted)
        bundle.load(reviews)
        assert tries == []
        other = changed(members, lambda manifest: manifest.update(caveats=["it was changed"]))
        bundle.load(write(tmp_path / "a.bundle", other))
        assert len(tries) == 1
        bundle.load(tmp_path / "a.bundle")
        assert len(tries) == 1


ALONE = """
    import sys

    asked = []
    def hook(event, arguments):
        if event.startswith("socket.") and event not in ("socket.__new__", "socket.gethostname"):
            asked.append((event, arguments))
    sys.addaudithook(hook)

    import leaven
    for file, given in zip(sys.argv[1::2], sys.argv[2::2]):
        print(leaven.load(file)(given).label)
    assert not asked, asked
"""


@pytest.mark.slow
def test_bundles_on_disk_ask_no_network(reviews: Path, colours_file: Path, tmp_path: Path) -> None:
    """Neither a name nor an address is looked up."""
    Image.new("RGB", (20, 20), "red").save(tmp_path / "red.png")
    given = [reviews, "it was good", colours_file, tmp_path / "red.png"]
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ALONE), *map(str, given)], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split()[1] == "red"
