"""Where the answer stands in what the policy wrote. One order; the first form that is there decides.

1. Thinking is not read: all up to the last `</think>` is dropped, and an unclosed `<think>` leaves nothing. Where
   `<answer>` tags stand, only what the last pair holds is read. Fenced code is not read.
2. The last `\\boxed{...}` (or `\\fbox`). Boxes that follow each other with nothing but commas and joining words between
   them are one answer of several values. Boxes that differ otherwise are no answer, unless the text between the last
   two takes back what went before (wait, correcting, the right value, ...): then the last one counts. An empty box is
   none.
3. The last `#### ...` line.
4. The last `final answer: ...`, `the answer is ...`, `answer = ...`, in that order of words or at a line's start.
5. The last expression of the last line, or of the last line before it that has one.

An answer in a sentence is read twice: as it stands, and as the expression that it begins with.
"""

from __future__ import annotations

import re

MAX_BOXES = 50
SHORT = 60  # characters of an answer in words alone
TAIL = 20_000  # characters from the end that forms 3 to 5 look at
FENCE = re.compile(r"^[ \t]*(```|~~~)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)
PROSE_FENCES = frozenset(("", "latex", "tex", "math", "text", "markdown", "md", "txt", "plaintext"))
BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])[ \t]*+")
JOINS = re.compile(r"(?:[\s,;$&]|\\[()\[\],;: ]|\\quad|\\qquad|\\text\s*\{\s*(?:and|or)\s*\}|\band\b|\bor\b)*+")
CORRECTIONS = re.compile(
    r"(?i)\b(?:wait|hold on|correct(?:ed|ing|ion|ly)?|actually|mistake|mistaken|oops|sorry|apolog\w+|instead|"
    r"rather|wrong|error|revis\w+|recheck\w*|re-?comput\w+|re-?count\w*|misse[sd]|missing|right (?:value|answer)|"
    r"on second thought|scratch that|no,|final answer|therefore,? the final|should be|let me|double[- ]check\w*|fix\w*)"
)
HASHES = re.compile(r"^[ \t>*]*####[ \t]*+([^\n]*+)", re.M)
MARKER = re.compile(
    r"(?:\b(?:final|correct)\s+(?:answer|result)|\b(?:the|my|our|so)\s+(?:\w+\s+){0,2}?(?:answer|result)|\banswer|答案"
    r"|^[ \t>*_]*A(?=:))(?:\s+(?:to|for|of)\s+(?:\w+\s+){0,5}?(?:question|problem|exercise))?[ \t*_`]*+"
    r"(?:is|are|was|be|equals|[:=：是为]|would be|comes? (?:out )?to|\n)[ \t*_`]*+(?:is[ \t:]++)?+[:：]?+",
    re.M | re.I,
)
TAGS = re.compile(r"</?(?:answer|final_answer|solution|p|br|b|strong)\s*/?>", re.I)
RUN_WORDS = (
    r"pi|sqrt|exp|sin|cos|tan|log|ln|or|and|infinity|million|billion|thousand|square|cubic|per|percent|degrees?|"
    r"cm|mm|km|kg|mph|feet|foot|ft|inch(?:es)?|meters?|metres?|centimeters?|kilometers?|miles?|yards?|hours?|hrs?|"
    r"minutes?|mins?|seconds?|days?|weeks?|months?|years?|grams?|kilograms?|liters?|litres?|pounds?|ounces?|dollars?|cents?|"
    r"units?|mL|ml|oz|lbs?"
)
RUN = re.compile(
    r"(?:(?<![\w])(?:" + RUN_WORDS + r")(?![A-Za-z])"
    r"|\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{[^{}]*\}|\\[A-Za-z]+|\\[{}%$,!;: ]"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z'’])|\d[A-Za-z](?![A-Za-z])|\d|[-+*/^_=<>()\[\]{}|!%,.:;$€£¥°′∞π√≤≥≠±×·÷∪∩∈∅−–⁄½¼¾⅓⅔²³ℝθαβ&\s](?<!\n))++"
)
HAS_VALUE = re.compile(r"\d|\\(?!text|mathrm)[A-Za-z]{2,}|[∞π√∅½¼¾⅓⅔]|\bpi\b")


def answers(text: str) -> tuple[str, ...]:
    """The readings of the one answer of `text`; none where it gives none."""
    shown = _shown(text)
    if shown is None:
        return ()
    boxes = _boxes(shown)
    if boxes is not None:
        return boxes
    tail = TAGS.sub(" ", shown.rstrip()[-TAIL:])
    if hashed := HASHES.findall(tail):
        return _in_prose(hashed[-1])
    said = _after_marker(tail)
    return _in_prose(said) if said else _last_expression(tail)


def _after_marker(text: str) -> str:
    """The rest of the line behind the last marker, or the next line where nothing stands there."""
    markers = list(MARKER.finditer(text))
    if not markers:
        return ""
    lines = [line for line in text[markers[-1].end() :].split("\n", 8)[:8] if line.strip(" \t*_`.:$")]
    return lines[0] if lines else ""


def _shown(text: str) -> str | None:
    _, closed, after = text.rpartition("</think>")
    if not closed and "<think>" in text:
        return None
    shown = after if closed else text
    start = shown.rfind("<answer>")
    if start >= 0:
        end = shown.find("</answer>", start)
        shown = shown[start + len("<answer>") : end if end >= 0 else len(shown)]
    if "```" in shown or "~~~" in shown:
        shown = FENCE.sub(lambda m: f"\n{m[3]}\n" if m[2].lower() in PROSE_FENCES and _is_prose(m) else "\n", shown)
    return shown


def _is_prose(match: re.Match[str]) -> bool:
    return bool(match[2]) or "\\boxed" in match[3] or match[3].strip().count("\n") == 0


def _boxes(text: str) -> tuple[str, ...] | None:
    """The answer in boxes; None where there is no box at all, () where they give no answer."""
    found: list[tuple[int, int, str]] = []
    for match in list(BOX.finditer(text))[-MAX_BOXES:]:
        inner = _braced(text, match.end())
        if inner is None:
            if single := re.compile(r"[A-Za-z0-9](?![A-Za-z])").match(text, match.end()):
                found.append((match.start(), single.end(), single[0]))
            continue
        if found and match.start() < found[-1][1]:  # a box in a box: the inner one is the answer
            found[-1] = (found[-1][0], found[-1][1], inner)
        else:
            found.append((match.start(), match.end() + len(inner) + 2, inner))
    if not found:
        return None
    joined = [found[-1][2]]
    place = len(found) - 1
    while place and JOINS.fullmatch(text[found[place - 1][1] : found[place][0]]):
        place -= 1
        joined.insert(0, found[place][2])
    distinct = list(dict.fromkeys(_plain(one) for one in joined))
    last = joined[-1] if len(distinct) == 1 else ", ".join(joined)
    before = found[place - 1] if place else None
    differ = [box for box in found[:place] if _plain(box[2]) != _plain(last)]
    if before is not None and differ and not CORRECTIONS.search(text[differ[-1][1] : found[place][0]]):
        return ()
    return _readings(last) if last.strip() else ()


def _plain(text: str) -> str:
    return re.sub(r"[\s$]|\\[,;!]", "", text)


def _braced(text: str, start: int) -> str | None:
    """What stands between the braces that open at `start`; to the end of the line where they never close."""
    if text[start : start + 1] != "{":
        return None
    depth = 0
    for match in re.compile(r"\\.|[{}]", re.S).finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[start + 1 : match.start()]
    return text[start + 1 :].partition("\n")[0].rstrip("$ .")


def _readings(text: str) -> tuple[str, ...]:
    """What a box holds: as it stands, and the formula or the words behind a marker in it."""
    whole = text.strip()
    found = [whole, _only_formula(whole) or "", _after_marker(whole)]
    return tuple(dict.fromkeys(one.strip() for one in found if one.strip()))


def _in_prose(text: str) -> tuple[str, ...]:
    """An answer in a sentence: as it stands, and the formula or expression that it begins with or alone has."""
    whole = text.strip().strip("*_`").strip()
    whole = re.sub(r"^(?:is|are|equal to|equals|just|simply|therefore|thus|approximately|about)\s+(?=\S)", "", whole)
    found = [whole]
    formula = _only_formula(whole)
    start = RUN.match(whole)
    if formula is not None:
        found.append(formula)
    elif start is not None and HAS_VALUE.search(start[0]):
        rest = whole[start.end() :]
        if rest and start[0][-1].isspace() and not re.match(r"(?:or|and|to|if|through|is|are|isn't)\b", rest):
            found.append(_trimmed(start[0]))
    elif start is None and (alone := re.fullmatch(ONE_NUMBER, whole)):
        found.append(alone[1])
    sentence = re.split(r"[.!?。！？](?=\s+[A-Z\\(])|。|\n", whole, maxsplit=1)[0].strip("* ")
    if sentence and sentence != whole:
        found.append(sentence)
    return tuple(dict.fromkeys(one for one in found if one.strip()))


ONE_NUMBER = r"[A-Za-z' ]*\s([-–−]?[$€£]?\d[\d,]*(?:\.\d+)?%?)(?:\s[A-Za-z', ]*)?[.!]?"
FORMULA = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]|\$\$(.+?)\$\$|\$([^$\n]+?)\$(?!\d)", re.S)


def _only_formula(text: str) -> str | None:
    found = [next(g for g in m.groups() if g is not None) for m in FORMULA.finditer(text)]
    return found[0] if len(found) == 1 and not re.fullmatch(r"\d[\d.,]*\s+\w.*", found[0]) else None


def _trimmed(run: str) -> str:
    run = run.strip().rstrip(",;:=(&|").strip()
    run = re.sub(r"(?:\s+|^)(?:and|or|per|a|A|I|square|cubic)$", "", run)
    run = re.sub(r"^(?:(?:and|or|a|A|I|per)\s+|[,;:.)=&|!]\s*)+(?!\d*$)", "", run) if not run[:1].isdigit() else run
    return run.strip().rstrip(",;: ")


def _last_expression(text: str) -> tuple[str, ...]:
    """The last formula or run of mathematics of the last line that has one."""
    whole = text.strip().strip("*_` ")
    for line in reversed([line for line in text.splitlines() if line.strip()][-8:]):
        bare = line.strip().strip("*_` ")
        formulas = [next(g for g in m.groups() if g is not None) for m in FORMULA.finditer(bare)]
        formulas = [f for f in formulas if not re.search(r"[A-Za-z]{4,} |, so|and \$", f)]
        runs = [_trimmed(m[0]) for m in RUN.finditer(bare) if HAS_VALUE.search(m[0])]
        runs = [run for run in runs if run and HAS_VALUE.search(run)]
        if formulas and (not runs or runs[-1].strip("$ .") in formulas[-1]):
            return (formulas[-1],)
        if runs:
            return (
                re.sub(r"\.\s.*$", "", runs[-1], flags=re.S) if re.search(r"\.\s+[A-Za-z]\b", runs[-1]) else runs[-1],
            )
    if "\n" not in whole and len(whole) <= SHORT:  # one line of words is an answer in words
        return (whole,) if whole else ()
    last = whole.rpartition("\n")[2].strip("*_` ")
    return (last,) if re.fullmatch(r"\(?[A-J]\)?\.?", last) else ()
