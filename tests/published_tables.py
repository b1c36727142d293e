"""Tables as they are published: without headers, with stray quotes, with most rows of one class."""

from pathlib import Path

from tests import tiny_bert

SHARE = 8  # every eighth message is spam: 87 % are not


def quoted(*cells: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


def ag_news(folder: Path, count: int = 60) -> Path:
    """Two tables without a header, all cells in quotes: the number of the class, a title and a description."""
    folder.mkdir()
    texts = [text for text, _ in tiny_bert.reviews(count + 20)]
    rows = [quoted(str(at % 4 + 1), text[:12], f'{at} {text}, "so" it said') for at, text in enumerate(texts)]
    (folder / "train.csv").write_text("".join(rows[:count]))
    (folder / "test.csv").write_text("".join(rows[count:] + rows[:2]))
    (folder / "classes.txt").write_text("World\nSports\nBusiness\nSci/Tech\n")
    (folder / "readme.txt").write_text("AG's news.\n\nThe classes are in classes.txt.\n")
    return folder


def sms_spam(folder: Path, count: int = 160) -> Path:
    """A file without an ending or a header: tabs, quotes that nothing closes, 87 % of one class."""
    folder.mkdir()
    texts = [text for text, _ in tiny_bert.reviews(count)]
    rows = []
    for at, text in enumerate(texts):
        mark = '"' if at % 37 == 3 else ""
        rows.append(f"{'ham' if at % SHARE else 'spam'}\t{mark}{at} {text}\n")
    rows[40] = f'ham\tthe {"film"} was "good" and so\n'
    (folder / "SMSSpamCollection").write_text("".join(rows))
    return folder / "SMSSpamCollection"
