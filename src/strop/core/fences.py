"""Takes the program out of a whole model answer, by one rule.

Reasoning (`<think>` to `</think>`, wherever it stands; an opening tag without an end reaches to the end, an end without
an opening from the start; a tag right after a quote mark or slash is part of a program) is removed first. Then, of the
fenced blocks that hold anything: the last one whose tag is the language, else the last without a tag, else the last.
Fences are those of CommonMark, in list items and quotes too; one that is never closed reaches to the end. Without any
fence the whole text is the program, for Python only if it parses.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

MAX_TEXT = 1 << 20
ALIASES = {
    "python": ("py", "python3", "py3", "python2", "ipython", "ipython3"),
    "cpp": ("c++", "cc", "cxx", "cplusplus", "hpp"),
    "c": ("h", "gcc"),
    "javascript": ("js", "node", "nodejs", "mjs", "cjs", "jsx", "ecmascript"),
    "typescript": ("ts",),
    "bash": ("sh", "shell", "zsh", "ksh"),
    "java": ("openjdk",),
    "rust": ("rs",),
    "go": ("golang",),
    "ruby": ("rb",),
    "csharp": ("c#", "cs"),
    "kotlin": ("kt",),
    "haskell": ("hs",),
    "perl": ("pl",),
}
_THINK = re.compile(r"(?<![\"'`/|\\(])<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A.*(?<![\"'`/|\\(?*])</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"(?P<before>(?:[ \t]|>[ ]?|(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*+)(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_TAG = re.compile(r"[{\s]*\.?(?:language-|lang-)?([A-Za-z0-9+#_-]*)")
_VERSION = re.compile(r"(?:[-_ ]?(?:v?[0-9][0-9a-z.]*))$")


@dataclass(frozen=True, slots=True)
class Block:
    tag: str
    text: str


def extract_code(response: str, language: str) -> str | None:
    """The program in a model's answer, or None where there is none."""
    answer = _THOUGHT.sub("", _THINK.sub("", response[:MAX_TEXT]))
    found = fenced_blocks(answer)
    blocks = [block for block in found if block.text.strip()]
    if blocks:
        fitting = [block for block in blocks if is_tag_of(block.tag, language)]
        untagged = [block for block in blocks if not block.tag]
        return (fitting or untagged or blocks)[-1].text
    if found or not answer.strip():
        return None
    return answer if language != "python" or _parses(answer) else None


def is_tag_of(tag: str, language: str) -> bool:
    known = next((name for name, others in ALIASES.items() if language in others), language)
    names = (known, language, *ALIASES.get(known, ()))
    return tag in names or _VERSION.sub("", tag) in names


def fenced_blocks(text: str) -> list[Block]:
    """All fenced blocks, in order, each line of them without the indentation of its fence."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    for line in re.split(r"\r\n|\n|\r", text.rstrip("\r\n")):
        if opened is None:
            match = _OPEN.fullmatch(line)
            if match and not (match["fence"][0] == "`" and "`" in match["info"]):
                opened, lines = match, []
            continue
        line = _inside(line, opened["before"])
        if _closes(line, opened["fence"]):
            blocks.append(_block(opened, lines))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        blocks.append(_block(opened, lines))
    return blocks


def _inside(line: str, before: str) -> str:
    """The line without what stood before the fence: quote marks, and blanks as wide as its indentation."""
    for mark in re.findall(r">[ ]?|[^>]", before):
        if mark[0] == ">":
            line = re.sub(r"\A[ ]{0,3}>[ ]?", "", line)
        elif line[:1] in (" ", "\t"):
            line = line[1:]
    return line


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    indented = len(line) - len(line.lstrip())
    return len(bare) >= len(fence) and set(bare) == {fence[0]} and indented <= 3


def _block(opened: re.Match[str], lines: list[str]) -> Block:
    tag = _TAG.match(opened["info"])
    return Block(tag=tag[1].lower() if tag else "", text="".join(line + "\n" for line in lines))


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
