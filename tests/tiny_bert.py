"""A BERT of a few thousand parameters with its tokenizer, as a folder: for tests that train on texts in seconds."""

from pathlib import Path
from typing import Any

WORDS = (
    *("a", "the", "this", "that", "film", "movie", "story", "it", "was", "is", "not", "very", "really", "so", "and"),
    *("good", "great", "lovely", "fine", "bad", "poor", "dull", "awful", "loved", "hated", "every", "minute", "but"),
    *("man", "dog", "sleeps", "someone", "asleep", "awake", "nobody", "quick", "brown", "fox", "over", "no", "yes"),
)


def make(folder: Path, *, architectures: str = "BertModel", longest: int = 64, **settings: Any) -> Path:
    """Write the model and its tokenizer, for texts of so many tokens, into a folder."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary += [word for word in WORDS if word not in vocabulary]
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=longest, **{**sizes, **settings})
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: at for at, word in enumerate(vocabulary)}, model_max_length=longest)
    tokenizer.save_pretrained(folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace("BertModel", architectures))
    return folder


def with_head(bert: Path, folder: Path, *labels: str, bias: tuple[float, ...] = ()) -> Path:
    """Write the same model with a head whose outputs have these names."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig.from_pretrained(bert)
    config.id2label = dict(enumerate(labels))  # type: ignore[assignment]
    config.label2id = {name: at for at, name in enumerate(labels)}
    model = BertForSequenceClassification.from_pretrained(bert, config=config)
    if bias:
        with torch.no_grad():
            model.classifier.bias.copy_(torch.tensor(bias))
    model.save_pretrained(folder)
    for file in bert.glob("tokenizer*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


GOOD, BAD = ("good", "great", "lovely", "fine"), ("bad", "poor", "dull", "awful")


def reviews(count: int) -> list[tuple[str, str]]:
    """So many sentences of different lengths, each with `good` or `bad`."""
    found = []
    for number in range(count):
        kind = ("good", "bad")[number % 2]
        word = (GOOD if kind == "good" else BAD)[number // 2 % 4]
        start = " ".join(["the film was", "this story is", "a movie that was", "it was"][number % 4 : number % 4 + 1])
        more = "and really so " * (number % 5)
        found.append((f"{start} {more}{word}", kind))
    return found


def write_csv(file: Path, count: int = 60) -> Path:
    rows = "".join(f"{text},{label}\n" for text, label in reviews(count))
    file.write_text(f"sentence,label\n{rows}", encoding="utf-8")
    return file
