"""Tries out the tokenizer in a folder, as a program of its own: in a subprocess with limits of memory and time.

It imports nothing of Leaven's, and torch only for the few tokenizers that have no `tokenizer.json`, so that it takes
a moment. It prints why the tokenizer is refused, in a clause after "the tokenizer", and nothing where it may be used.
What can't be found by trying, texts that grow only where a certain word is in them, is found by reading its rules.
"""

import base64
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """Bytes of memory besides what the libraries take, and seconds of CPU time."""

    memory: int
    seconds: int

    def too_large(self) -> str:
        return f"needs more than {self.memory / 2**30:.3g} GB of memory"


LIMITS = Limits(memory=2**30, seconds=20)
MOST_GROWTH = 16  # letters, or tokens, for a letter
MOST_ADDED = 1000  # letters, or tokens, that any text gets
_LONGEST_MAPPED = 64  # bytes; sentencepiece's own tables have 33, for a ligature of four Arabic words
_TEXTS = (
    *("", "no", "The quick brown fox jumps over the lazy dog.", "1,234 words — naïve, größer; 東京!", "Yes, it is."),
    *(
        "".join(map(chr, range(32, 127))),
        "\n\t\r \x00\u200b\ufeff",
        "Ελληνικά, Русский, עברית, العربية, हिन्दी, ไทย, 한국어",
    ),
    *("👩‍👩‍👧 🇩🇪 ½ ﷺ ﬁ Å e\u0301", 'https://example.org/a?b=c&d=%20#e <p>it\'s "so" {[(x)]}</p>'),
    *(each * 500 + "!" for each in ("a", "A", "0", " ", ".", "\n", "é", "東", "ab ", "a1_-", "(", "word ", "x=y; ")),
)
# What a regular expression that matches the empty string has in it: it may match between any two letters.
_MAY_BE_EMPTY = re.compile(r"[*?|^$()]|\{[0,]|\\[bBAzZGK]")


class Refused(Exception):
    """Why the tokenizer is not used, as a clause."""


def main(folder: Path) -> None:
    file = folder / "tokenizer.json"
    try:
        if file.is_file():
            from tokenizers import Tokenizer

            limit(LIMITS)
            tokenizer = Tokenizer.from_file(str(file))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            _check_rules(tokenizer)
            _check_texts(lambda *texts: tokenizer.encode(*texts).ids)
        else:
            settings = folder / "tokenizer_config.json"
            for name in json.loads(settings.read_bytes()) if settings.is_file() else ():
                if name in ("auto_map", "name_or_path", "_name_or_path") or name.endswith("_file"):
                    # code, or files outside of the folder, which the library would load
                    raise Refused(f"has a setting that a bundle can't have: {name!r:.60}")
            from transformers import AutoTokenizer

            limit(LIMITS)
            slow: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            _check_texts(lambda *texts: slow(*texts)["input_ids"])
    except Refused as refused:
        print(refused)
    except MemoryError:
        print(LIMITS.too_large())
    except BaseException as problem:  # a panic of the library is no Exception
        print(f"can't be used: {' '.join(str(problem).split())[:200] or type(problem).__name__}")


def limit(limits: Limits) -> None:
    """From now on, so much memory and time. Where the system has no such limits, the caller's is the only one."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        used = resource.getrusage(resource.RUSAGE_SELF)  # which the limit counts, too
        most_seconds = math.ceil(used.ru_utime + used.ru_stime) + limits.seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
        most = pages * resource.getpagesize() + limits.memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError):
        return


def _check_rules(tokenizer: Any) -> None:
    """Refuse rules that make texts much longer."""
    grown = 1.0
    for rule in (tokenizer.normalizer, tokenizer.pre_tokenizer):
        if rule is not None:
            grown *= _growth(json.loads(rule.__getstate__()))
    if grown > MOST_GROWTH:
        raise Refused(f"makes texts up to {grown:,.0f} times as long" if grown < 1e9 else "makes texts endless")


def _growth(rule: dict[str, Any]) -> float:
    """How many times as long a rule makes a text at most; tables that Unicode publishes count as one."""
    match rule:
        case {"type": "Sequence", "normalizers": [*rules]} | {"type": "Sequence", "pretokenizers": [*rules]}:
            grown = 1.0
            for inner in rules:
                grown = min(grown * _growth(inner), 1e300)
            return grown
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
            return max(1.0, len(new) / len(old) if old else 1 + len(new))
        case {"type": "Replace", "pattern": {"Regex": str(old)}, "content": str(new)}:
            return max(1.0, len(new) + (_MAY_BE_EMPTY.search(old) is not None))
        case {"type": "Replace"}:
            raise Refused("replaces what can't be read")
        case {"type": "ByteLevel"}:
            return 2.0
        case {"type": "Prepend", "prepend": str(start)} if len(start) > MOST_ADDED:
            raise Refused(f"adds {len(start):,} letters to every text")
        case {"type": "Precompiled", "precompiled_charsmap": str(table)}:
            content = base64.b64decode(table)
            texts = content[4 + int.from_bytes(content[:4], "little") :]  # after the trie, each ends with a zero
            return max(1.0, max(map(len, texts.split(b"\0")), default=0) / _LONGEST_MAPPED)
    return 1.0


def _check_texts(encode: Callable[..., list[int]]) -> None:
    """Refuse a tokenizer that makes far more tokens than letters."""
    for text in _TEXTS:
        for given in ((text,), (text, "Is it?")):
            count = len(encode(*given))
            if count > MOST_GROWTH * sum(map(len, given)) + MOST_ADDED:
                raise Refused(f"makes {count:,} tokens of {sum(map(len, given)):,} letters")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
