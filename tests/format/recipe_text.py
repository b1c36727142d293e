"""Random recipes: every rule of the grammar, with spaces, line ends and comments anywhere."""

from collections.abc import Callable, Sequence

Choose = Callable[[Sequence[str]], str]

_WORDS = ("model", "data", "optimizer", "phase", "phase", "f", "timm.convnext_tiny", "layer4.1.conv2", "true", "none")
_NUMBERS = ("42", "1_000", "3e-4", ".5", "30 %", "2 epochs", "4 GB", "7 E", "7 E5")
_TEXTS = ('"photos"', '"a \\"b\\" # { c"', '""', '"a rather long text, so that a line has to be broken somewhere"')
_LENGTHS = ("1", "2", "3", "5", "8", "13", "21", "34", "55", "80", "99")
_BLANKS = (" ", " ", " ", "  ", "    ", "\t")
_OPERATORS = ("+", "-", "*", "/")
_COMMENTS = ("#{}", "# {}", "## {}", "#!{}", "#  {}  ")
_DEPTH = 4


class RecipeText:
    """Writes one recipe, making every decision through `choose`."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.comments = 0
        self.brackets = 0
        self.written: list[str] = []

    def write(self) -> str:
        self._apart()
        for _ in self._several("12345"):
            if self.choose("1234") == "1":
                self._table()
            else:
                self._statement(_DEPTH)
                self._end()
        return "".join(self.written)

    # -- statements

    def _statement(self, depth: int) -> None:
        match self.choose(("plain", "plain", "plain", "plain", "called", "arg", "let", "import", "extends")):
            case "plain":
                self._put(self.choose(_WORDS[:-2]))
                if self._perhaps():
                    self._blank()
                    self._arguments(self._several("1123"), depth)
                self._block(depth)
            case "called":
                self._put(self.choose(_WORDS[:-2]))
                self._bracketed("(", ")", depth, are_arguments=True)
                self._block(depth)
            case "arg":
                self._arg(depth)
            case "let":
                self._words("let", "block", "=")
                self._value(depth)
            case "import":
                self._words("import", self.choose(('"mine.py"', "pack.age")), "as", "mine")
            case "extends":
                self._words("extends", '"base.leaven"')

    def _table(self) -> None:
        """Similar lines, some of them padded, some as long as a line may be."""
        form = self.choose(("arg", "let", "phase", "phase", "mixed"))
        arguments = self._several("1123")
        for _ in self._several("2345"):
            match form:
                case "arg":
                    self._words("arg", self.choose(("lr", "photos")), ":", "path")
                    if self._perhaps():
                        self._words("=", self._any_length())
                    self._put(self.choose(("", self._any_length())))
                case "let":
                    self._words("let", self.choose(("lr", "photos")), "=", self._any_length())
                case "phase" | "mixed":
                    self._blanked(self.choose(_WORDS) if form == "mixed" else "phase", self._any_length())
                    for _ in arguments:
                        self._blanked(",", f"epochs={self._any_length()}")
                    if self._perhaps():
                        self._blanked("", self.choose(("{ }", "{ freeze all - head }", "{ a; b  { c } }")))
            if self._perhaps():
                self._blank()
                self._comment()
            else:
                self._put("\n")

    def _any_length(self) -> str:
        return f'"{int(self.choose(_LENGTHS)) * "x"}"'

    def _blanked(self, left: str, right: str) -> None:
        self._put(left)
        self._blank()
        self._put(right)

    def _arg(self, depth: int) -> None:
        self._words("arg", self.choose(("lr", "photos")), ":")
        if self._perhaps():
            self._put("choice")
            self._bracketed("[", "]", depth, are_arguments=False)
        else:
            self._put(self.choose(("path", "float")))
        self._blank()
        if self._perhaps():
            self._words("=")
            self._value(depth)
            self._blank()
        if self._perhaps():
            self._put('"what it is"')

    def _block(self, depth: int) -> None:
        if depth == 0 or not self._perhaps():
            return
        self._space() if self._perhaps() else self._blank()
        self._put("{")
        self._apart()
        for _ in self._several("0112"):
            self._statement(depth - 2 if depth > 1 else 0)
            self._end()
        self._put("}")

    def _end(self) -> None:
        match self.choose(("line", "line", "line", "semicolon", "comment")):
            case "line":
                self._put("\n")
            case "semicolon":
                self._put(self.choose((";", " ; ", ";\n")))
            case "comment":
                self._blank()
                self._comment()
        self._apart()

    # -- values

    def _arguments(self, several: str, depth: int) -> None:
        for index, _ in enumerate(several):
            if index:
                self._inner_blank()
                self._put(",")
                self._space()
            if self._perhaps():
                self._put(self.choose(("lr", "epochs")))
                self._inner_blank()
                self._put("=")
                self._inner_blank()
            self._value(depth)

    def _value(self, depth: int) -> None:
        forms = ("word", "number", "text", "call", "list", "group", "pipeline", "sum", "sum", "negative")
        match self.choose(forms if depth > 0 else forms[:3]):
            case "word":
                self._put(self.choose(_WORDS))
            case "number":
                self._number()
            case "text":
                self._put(self.choose(_TEXTS))
            case "call":
                self._put(self.choose(_WORDS[:-2]))
                self._inner_blank()
                self._bracketed("(", ")", depth - 1, are_arguments=True)
            case "list":
                self._bracketed("[", "]", depth - 1, are_arguments=False)
            case "group":
                self._open("(")
                self._value(depth - 1)
                self._close(")")
            case "pipeline":
                self._value(depth - 2)
                for _ in self._several("12"):
                    self._space()
                    self._put("->")
                    self._space()
                    self._value(depth - 2)
            case "sum":
                self._value(depth - 1)
                self._inner_blank()
                self._put(self.choose(_OPERATORS))
                self._inner_blank()
                self._value(depth - 1)
            case "negative":
                self._put("-")
                self._inner_blank()
                self._value(depth - 1)

    def _number(self) -> None:
        for index, part in enumerate(self.choose(_NUMBERS).split()):
            if index:
                self._inner_blank()
            self._put(part)

    def _bracketed(self, opening: str, closing: str, depth: int, are_arguments: bool) -> None:
        self._open(opening)
        several = self._several("0123") if depth >= 0 else ""
        if are_arguments:
            self._arguments(several, depth)
        else:
            for index, _ in enumerate(several):
                if index:
                    self._put(",")
                    self._space()
                self._value(depth)
        if several and self._perhaps():
            self._inner_blank()
            self._put(",")
        self._close(closing)

    def _open(self, bracket: str) -> None:
        self._put(bracket)
        self.brackets += 1
        self._inner_blank()

    def _close(self, bracket: str) -> None:
        self._inner_blank()
        self.brackets -= 1
        self._put(bracket)

    # -- what stands between tokens

    def _put(self, text: str) -> None:
        self.written.append(text)

    def _words(self, *words: str) -> None:
        for word in words:
            self._put(word)
            self._blank()

    def _blank(self) -> None:
        self._put(self.choose(_BLANKS))

    def _inner_blank(self) -> None:
        """Between two tokens of a value: inside brackets it may be anything."""
        if self.brackets and self.choose("1234") == "1":
            self._space()
        else:
            self._blank()

    def _space(self) -> None:
        """Where a line end has no meaning."""
        match self.choose(("blank", "blank", "blank", "line", "comment", "comment line")):
            case "blank":
                self._blank()
            case "line":
                self._put(self.choose(("\n", "\n    ", "\r\n\n")))
            case "comment":
                self._blank()
                self._comment()
            case "comment line":
                self._put("\n  ")
                self._comment()

    def _apart(self) -> None:
        """Between statements."""
        for kind in self.choose(("", "", "", "l", "c", "ll", "lc", "cl", "cc", "lcll")):
            if kind == "l":
                self._put(self.choose(("\n", "\r\n", "  \n")))
            else:
                self._comment()

    def _comment(self) -> None:
        self.comments += 1
        self._put(self.choose(_COMMENTS).format(f"c{self.comments}"))
        self._put(self.choose(("\n", "\r\n")))

    def _perhaps(self) -> bool:
        return self.choose("ny") == "y"

    def _several(self, counts: str) -> str:
        return "x" * int(self.choose(counts))
