"""How texts become what a model takes: token ids, each text once, and batches that are padded to their longest text.

Decides what is stored of a text and how a batch is made of several; which texts make up a batch is decided in
`batches.py`, and what a text is in `formats/texts.py`.
"""

import hashlib
import json
import os
import warnings
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from leaven.formats.text_models import longest_input
from leaven.formats.texts import Text, parts_of, text_fault
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.tokens import PaddingRule, Tokens
from leaven.runtime.failures import BadFile, Caution, Failure
from leaven.runtime.model.text import from_files, read_configuration
from leaven.terminal import status_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AT_ONCE = 1000  # texts that are tokenized together
Padding = Literal["longest", "max_length"]
_LETTERS_A_TOKEN = 1000  # at most, on average; a word that the tokenizer does not know may be long
_MOST_LETTERS = 2**23
_NO_LIMIT = 10**6  # tokenizers without a limit say a number above it
TOKENIZER_FILES = (  # that a tokenizer is saved as; none of them holds code
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"),
    *("vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"),
)


class Tokenizer:
    """Turns texts into token ids, with the tokenizer that a model was trained with.

    `source` is the model's folder or its name on the hub. Texts of more than `max_length` tokens are truncated: by
    default to what the model can take. Batches are padded to their longest text, or always to `max_length`.
    """

    def __init__(
        self, source: str | os.PathLike[str], *, max_length: int | None = None, padding: Padding = "longest"
    ) -> None:
        self.source = os.fspath(source)
        self.padding = padding
        self._tokenizer = _loaded(self.source)
        limit = longest_input(read_configuration(self.source).to_dict())
        both = (limit, self._tokenizer.model_max_length)
        limits = [each for each in both if each is not None and each < _NO_LIMIT]
        if max_length is not None and limits and max_length > min(limits):
            raise Failure(
                f"the model takes at most {min(limits)} tokens, not {max_length}",
                f"`tokenize max_length={min(limits)}` is the most",
                about="data.eval",
            )
        self.max_length = max_length if max_length is not None else min(limits, default=512)

    @classmethod
    def from_files(cls, folder: Path, max_length: int, padding: Padding) -> "Tokenizer":
        """The tokenizer whose files are in a folder, without its model."""
        made = cls.__new__(cls)
        made.source, made.max_length, made.padding = str(folder), max_length, padding
        made._tokenizer = _from_files(folder)
        return made

    def __call__(self, text: Text) -> Tokens:
        """The tokens of one text, as a batch of one would have them without its first dimension."""
        if fault := text_fault(text):
            raise Failure(f"the text {fault.fact}")
        (encoded,), is_cut = self._truncated([text])
        if is_cut:
            fact = f"a text has more than {self.max_length} tokens"
            warnings.warn(f"{fact}; the rest is cut off", Caution, stacklevel=2)
        return Tokens({name: torch.tensor(numbers) for name, numbers in encoded.items()}, self._padding)

    def tokens(self, sample: Mapping[str, Tensor]) -> list[str]:
        """The tokens of a text, as people read them."""
        return list(self._tokenizer.convert_ids_to_tokens(sample["input_ids"].tolist()))

    def whole(self, text: Text) -> Tokens:
        """The tokens of a text before it is truncated."""
        (encoded,) = self._encoded([text], is_truncated=False)
        return Tokens({name: torch.tensor(numbers) for name, numbers in encoded.items()}, self._padding)

    def normalised(self, text: Text) -> Text | None:
        """A text as the tokenizer splits it, such as in lower case; None where that is not known."""
        normalizer = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None)
        if normalizer is None:
            return None
        parts = tuple(str(normalizer.normalize_str(part)) for part in parts_of(text))
        return parts[0] if len(parts) == 1 else parts

    def encoded(self, dataset: Dataset, *, skips_bad: bool) -> "EncodedTexts":
        """All texts of a dataset, each tokenized once. One that can't be used is a failure, unless it is skipped."""
        texts: list[Text] = []
        bad: dict[int, BadFile] = {}
        for index in range(len(dataset)):
            try:
                texts.append(dataset.load(index))
            except BadFile as problem:
                if not skips_bad:
                    raise
                bad[index] = problem
                texts.append("")
        tokens, truncated = EncodedTexts(bad, self._padding), 0
        with status_line.doing("tokenizing…"):
            for start in range(0, len(texts), AT_ONCE):
                encoded, cut = self._truncated(texts[start : start + AT_ONCE])
                tokens.extend(encoded)
                truncated += cut
                status_line.update(lambda: f"tokenizing: {tokens.count:,} of {len(texts):,} texts…")
        if truncated:
            have = "has" if truncated == 1 else "have"
            fact = f"{truncated:,} of {len(texts):,} texts {have} more than {self.max_length} tokens"
            warnings.warn(f"{fact}; the rest is cut off", Caution, stacklevel=4)
        return tokens

    def _truncated(self, texts: Sequence[Text]) -> tuple[list[dict[str, list[int]]], int]:
        """Texts as tokens, those that are too long cut, and how many these are."""
        tokens = self._encoded(texts, is_truncated=False)
        long = [at for at, each in enumerate(tokens) if len(each["input_ids"]) > self.max_length]
        for at, cut in zip(long, self._encoded([texts[at] for at in long], is_truncated=True), strict=True):
            tokens[at] = cut
        return tokens, len(long)

    def _encoded(self, texts: Sequence[Text], *, is_truncated: bool) -> list[dict[str, list[int]]]:
        if not texts:
            return []
        # as far as they can matter: tokenizing more would take memory for nothing
        most = min(_LETTERS_A_TOKEN * self.max_length, _MOST_LETTERS)
        kept = slice(-most, None) if self._tokenizer.truncation_side == "left" else slice(most)
        columns = list(zip(*([part[kept] for part in parts_of(text)] for text in texts), strict=True))
        try:
            encoded = self._tokenizer(
                *map(list, columns),
                truncation=is_truncated,
                max_length=self.max_length if is_truncated else None,
                verbose=False,
            )
        except BaseException as problem:
            if type(problem).__name__ != "PanicException":  # of the tokenizers library; it is no Exception
                raise
            raise Failure(f"the tokenizer fails on a text: {problem}") from None
        names = [name for name in self.names if name in encoded]
        return [{name: encoded[name][at] for name in names} for at in range(len(texts))]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the model's inputs, in their order."""
        return tuple(self._tokenizer.model_input_names)

    @cached_property
    def _padding(self) -> PaddingRule:
        pad = self._tokenizer.pad_token_id
        fills = {
            "input_ids": pad if pad is not None else self._tokenizer.eos_token_id or 0,
            "token_type_ids": self._tokenizer.pad_token_type_id,
        }
        width = self.max_length if self.padding == "max_length" else None
        return PaddingRule(fills, self._tokenizer.padding_side == "left", width)

    def save(self, folder: Path) -> list[Path]:
        """Write the files of the tokenizer into a folder; none of them holds code."""
        self._tokenizer.save_pretrained(folder)
        written = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
        if not written:
            raise Failure(f"the tokenizer of {self.source} can't be saved as files")
        return written

    def identity(self) -> dict[str, Any]:
        """All that the tokens of a text depend on, as plain data."""
        rules = getattr(self._tokenizer, "backend_tokenizer", None)
        if rules is None:
            raise Failure(f"what the tokenizer of {self.source} does is not known")
        digest = hashlib.blake2b(rules.to_str().encode(), digest_size=20).hexdigest()
        return {"tokenizer": digest, "max_length": self.max_length, "padding": self.padding}

    def __repr__(self) -> str:
        return f"Tokenizer({self.source!r}, max_length={self.max_length})"


def _loaded(source: str) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    found: PreTrainedTokenizerBase = from_files(AutoTokenizer, source, "tokenizer")
    return found


def _from_files(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer that was saved in a folder. Of its settings, only those that change tokens and padding are used."""
    if not (folder / "tokenizer.json").is_file():
        return _loaded(str(folder))
    import tokenizers
    import transformers

    make: Any = transformers.PreTrainedTokenizerFast
    settings = _read_settings(folder)
    kind = _class_of(settings)
    names, side = settings.get("model_input_names"), settings.get("padding_side")
    rules = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rules.no_padding()
    rules.no_truncation()
    tokens = {name: settings[name] for name in ("pad_token", "eos_token") if settings.get(name)}
    # a special token may be written with how it is matched
    special = {name: str(token["content"] if isinstance(token, dict) else token) for name, token in tokens.items()}
    found: PreTrainedTokenizerBase = make(
        tokenizer_object=rules,
        model_input_names=[*map(str, names)] if isinstance(names, list) else kind.model_input_names,
        padding_side=side if side in ("left", "right") else kind.padding_side,
        truncation_side="left" if settings.get("truncation_side") == "left" else kind.truncation_side,
        split_special_tokens=settings.get("split_special_tokens") is True,
        **special,
    )
    return found


def _read_settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        with suppress(FileNotFoundError):
            content = json.loads((folder / name).read_bytes())
            settings |= content if isinstance(content, dict) else {}
    return settings


def _class_of(settings: Mapping[str, Any]) -> Any:
    """The library's class for a tokenizer, whose attributes hold for all of its kind; no object is made."""
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    kind: Any = tokenizer_class_from_name(str(settings.get("tokenizer_class", "")).removesuffix("Fast"))
    is_one = isinstance(kind, type) and issubclass(kind, PreTrainedTokenizerBase)
    return kind if is_one else PreTrainedTokenizerBase


class EncodedTexts:
    """The tokens of all texts of a dataset, one after the other in memory; those that are `bad` have none."""

    rest = None  # of the transforms: the tokenizer is all
    approximation = ""

    def __init__(self, bad: Mapping[int, BadFile], padding: PaddingRule) -> None:
        self.bad = bad
        self.padding = padding
        self.count = 0
        self._flat: dict[str, array[int]] = {}
        self._ends = array("q", [0])

    def extend(self, encoded: Sequence[Mapping[str, Sequence[int]]]) -> None:
        for sample in encoded:
            for name, numbers in sample.items():
                self._flat.setdefault(name, array("i" if name == "input_ids" else "b")).extend(numbers)
            self._ends.append(self._ends[-1] + len(sample["input_ids"]))
        self.count += len(encoded)

    @cached_property
    def lengths(self) -> np.ndarray:
        """How many tokens each text has."""
        return np.diff(np.asarray(self._ends))

    def load(self, index: int) -> Tokens:
        if index in self.bad:
            raise self.bad[index]
        start, end = self._ends[index], self._ends[index + 1]
        own = {name: np.frombuffer(flat, flat.typecode)[start:end] for name, flat in self._flat.items()}
        return Tokens({name: torch.from_numpy(each.astype(np.int64)) for name, each in own.items()}, self.padding)
