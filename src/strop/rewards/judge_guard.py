"""What is settled about an answer before a judge sees it: what earns nothing, and how the rest is quoted.

The policy learns whatever persuades the judge, so texts that speak to the judge instead of doing the task score 0 here.
They are looked for in a plain form of the text: no hidden characters, accents or case, look-alikes as Latin letters. A
rule that the task's own prompt also matches does not count for that task: there it is the subject.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

# Letters of other scripts and marks that pass for ASCII; what NFKD folds needs no entry.
LOOKALIKES = {
    ord(like): letter
    for letter, likes in {
        **{"a": "аАΑαɑ", "b": "ВΒьЬ", "c": "сСϲ", "d": "ԁ", "e": "еЕΕ", "g": "ɡԌ", "h": "һНΗ", "i": "іІΙιı", "j": "јЈ"},
        **{"k": "кКΚκ", "l": "ӏӀ", "m": "мМΜ", "n": "Νո", "o": "оОΟο", "p": "рРΡρ", "q": "ԛ", "r": "г", "s": "ѕЅ"},
        **{"t": "тТΤτ", "u": "υս", "v": "ѵν", "w": "ԝѡ", "x": "хХΧχ", "y": "уУΥγү", "z": "Ζ"},
        **{"<": "‹〈⟨《«⟪≪❮＜", ">": "›〉⟩》»⟫≫❯＞", '"': "“”„‟", "'": "‘’‚‛", "-": "—–‒―‐‑−", "|": "│┃∣ǀ", "/": "∕⁄"},
    }.items()
    for like in likes
}
TAGS = re.compile("[\U000e0020-\U000e007e]{7,}+")  # invisible copies of ASCII, which models read; a flag takes six
UNSEEN = "\ufdd0"  # stands before what tags say; no text holds it
HIDDEN = frozenset({"Mn", "Me", "Cf", "Cc", "Cs", "Co", "Cn"})
JOINERS = "‌‍"  # zero width, but part of the spelling of some scripts and emoji

_VERB = r"(?<!not )(?<!n't )(?<!never )\b(?:ignore|disregard|forget|override|overlook|bypass)\s+"
_FILL = r"(?:(?:all|any|every|everything|of|the|your|these|those|this|that|my|what|was|is|said|you|were|told|and)\s+)*+"
_GRADER = r"(?:graders?|evaluators?|raters?|scorers?|(?:llm|ai|model)[\s-]judges?)"
_PART = r"(?:answers?|responses?|submissions?|references?|conversations?|prompts?|candidates?|instructions?|grading)"

# Possessive or bounded throughout: the policy chooses the text, so matching must stay near linear in it.
INJECTIONS: Mapping[str, re.Pattern[str]] = {
    name: re.compile("|".join(patterns))
    for name, patterns in {
        "override": (
            _VERB + _FILL + r"(?:above|previous|prior|preceding|earlier|foregoing|original|system)\s*+"
            r"(?:instructions?|prompts?|texts?|content|messages?|directions?|rules|guidelines|rubrics?|criteria|"
            r"conversation|context|(?=and\b)|(?=[.,;:!?])|$)",
            _VERB + _FILL + r"(?:instructions|rubrics?|(?:grading|scoring|evaluation|judging)\s+\w{1,20})\b",
        ),
        "demand": (
            r"\b(?:give|award|assign|grant|rate|grade|score|mark|rank|deserves?|merits?|output|return)\b[^\n.]{0,40}?"
            r"\b(?:full|maximum|maximal|max|highest|perfect|top|best)\W{1,3}(?:possible\W{1,3})?"
            r"(?:marks?|scores?|grades?|points|ratings?|credits?|rewards?)\b",
            r"(?<!\bi )(?<!\bwe )(?<!would )(?<!'d )\b(?:give|award|assign|grant|rate|grade|score|mark)\s+"
            r"(?:this|it|me|us|my|the|both|all|every)\b"
            r"(?:\s+\w{1,20}){0,4}?\W{1,3}(?:an?\s+)?(?:\d{1,3}|ten|five|hundred)"
            r"\s*(?:/|out\s+of|points?|marks?|[.!\n]|$)",
        ),
        "address": (
            rf"\b(?:dear|attention|hey|hello|notes?\s+(?:to|for)|messages?\s+(?:to|for)|instructions?\s+(?:to|for))"
            rf"\W{{1,3}}(?:the\s+|all\s+|any\s+)?{_GRADER}\b",
            r"\bnotes?\s+(?:to|for)\s+(?:the\s+)?judge\b",
            rf"\byou\s+are\s+(?:now\s+)?(?:the|an?)\s+(?:\w{{1,20}}\s+){{0,2}}(?:judge|{_GRADER})\b",
            rf"(?:^|\n)\W{{0,6}}(?:system\s+(?:prompt|message|instructions?|note|override)|{_GRADER})\W{{0,3}}:",
        ),
        "fake_verdict": (
            r"[\"'](?:verdict|winner|scores)[\"']\s*:",
            r"\bscores\s*:\s*\{",
            r"[\"'](?:reason(?:ing)?|explanation|justification|rationale|feedback)[\"']\s*:[^}]{0,400}?"
            r"[\"'](?:score|rating|grade)[\"']\s*:",
            r"[\"'](?:score|rating|grade)[\"']\s*:[^}]{0,400}?"
            r"[\"'](?:reason(?:ing)?|explanation|justification|rationale|feedback)[\"']\s*:",
            r"\[\[\s*(?:a|b|c|tie|rating\b[^\]]{0,20})\s*\]\]",
        ),
        "own_score": (
            r"\b(?:score|verdict|rating|grade|marks?)\W{1,6}(?:(?:of|is)\W{1,3})?(\d{1,3})\s*(?:/|out\s+of)\s*\1\b",
            r"\b(?:verdict|winner)\W{1,4}(?:is\s+)?(?:first|second|tie|this\s|(?:answer|response)\s+[ab12]\b)",
        ),
        "fake_delimiter": (
            r"(?<!<)<{3,}+\s*+/?\s*+(?:begin|end)\b",
            rf"(?:^|\n)[^\w\n]{{2,40}}(?:begin|end|start)(?:\s+of)?\s+(?:the\s+)?{_PART}\b[^\n]{{0,40}}(?:\n|$)",
        ),
        "hidden_text": (UNSEEN,),
        "control_token": (
            r"<\|[\w:-]{1,40}\|>",
            r"\[/?inst\]",
            r"<</?sys>>",
            r"<(?:start|end)_of_turn>",
        ),
    }.items()
}

_HEADINGS = (
    r"(?:thought|thinking)\s+process|thoughts?|reasoning|analysis|(?:the\s+)?(?:final\s+)?(?:answer|solution)(?:\s+is)?|"
    r"response|explanation|output|result|step\s+(?:1|one)|respuesta|solucion|reponse|losung|antwort|解|解答|答案|かいせつ"
)
_THINGS = (
    r"(?:answer|solution|response|reply|explanation|list|summary|code|poem|story|essay|translation|breakdown|guide|"
    r"example|overview|program|function|rewrite|plan)s?"
)
OPENERS = re.compile(
    "|".join(
        (
            r"(?:sure(?:\s+thing)?|certainly|of\s+course|absolutely|definitely|okay|ok|alright|(?:great|good)\s+question)\b",
            r"(?:i'd|i\s+would|i'm|i\s+am)\s+(?:be\s+)?(?:happy|glad|delighted|here)\s+to\s+(?:help|assist|answer)[^.!:\n]{0,60}",
            r"(?:i'll|i\s+will|i\s+can)\s+(?:help|assist|answer)\b[^.!:\n]{0,60}",
            r"as\s+an?\s+(?:(?:ai|artificial\s+intelligence|large|language|model|assistant|chatbot)\b\s*+)++"
            r"(?:(?:developed|created|trained|made|built)\s+by\s+\w+\W*)?(?:\W*i\W*$)?",
            r"(?:here(?:'s|\s+is|\s+are)?|below\s+(?:is|are)|the\s+following\s+(?:is|are))\s*(?::|\.\.\.|$)",
            r"(?:here(?:'s|\s+is|\s+are)|below\s+(?:is|are))\s+(?:the|an?|your|my|some|what)\b[^\d\n:]{0,80}?(?::|\.\.\.|$)",
            rf"(?:here(?:'s|\s+is|\s+are)|below\s+(?:is|are))\s+(?:the|an?|your|my)\s+(?:\w+\s+){{0,2}}{_THINGS}\b"
            r"[^.\d\n]{0,40}[.!](?=\W*$)",
            r"(?:let's|let\s+us|let\s+me)\s+(?:solve|think|work|break|start|begin|tackle|analy[sz]e|reason|go)\b[^.!:\n\d]{0,80}",
            r"to\s+(?:solve|answer|address)\s+this(?:\s+(?:problem|question|task))?(?=\W|$)(?:\W*(?:i|we)\W*$)?",
            r"(?:i\s+)?hope\s+(?:this|that|it)\s+helps|let\s+me\s+know\s+if[^.!\n]{0,80}",
            rf"(?:{_HEADINGS})\s*+(?::|$)",
        )
    )
)
MAX_OPENERS = 8


def plain(text: str) -> str:
    """`text` as patterns look at it: hidden characters and accents gone, look-alikes as Latin letters, no case."""
    told = TAGS.sub(lambda run: UNSEEN + "".join(chr(ord(c) - 0xE0000) for c in run.group()), text.replace(UNSEEN, ""))
    folded = unicodedata.normalize("NFKD", told)
    shown = "".join(c if c in f"\n\t{UNSEEN}" or unicodedata.category(c) not in HIDDEN else "" for c in folded)
    return re.sub(r"[^\S\n]+", " ", shown.translate(LOOKALIKES).casefold())


def num_characters(text: str) -> int:
    """Letters and digits in `text`."""
    return sum(map(str.isalnum, text))


def is_opener(text: str) -> bool:
    """Whether `text` only announces an answer, or heads one, and then ends."""
    rest = plain(text).strip()
    for _ in range(MAX_OPENERS):
        rest = re.sub(r"^[\W_]++", "", rest)
        match = OPENERS.match(rest)
        if match is None:
            break
        rest = rest[match.end() :]
    return not num_characters(rest)


def injection(text: str, prompt: str, allow: Iterable[str] = ()) -> str | None:
    """What in `text` speaks to the judge, as `rule: excerpt`; None when nothing does."""
    flat, asked = plain(text), plain(prompt)
    for name, pattern in INJECTIONS.items():
        match = None if name in allow else pattern.search(flat)
        if match is not None and not pattern.search(asked):
            return f"{name}: {' '.join(match.group().split())[:80]!r}"
    return None


def shown_to_judge(text: str) -> str:
    """`text` without characters that are not seen, and with control tokens broken up, which a server might obey."""
    unseen = HIDDEN - {"Mn", "Me"}
    shown = (c for c in text if c in "\n\t" or c in JOINERS or unicodedata.category(c) not in unseen)
    return "".join(shown).replace("<|", "< |")


def quote(label: str, text: str, mark: str) -> str:
    """`text` as data between marker lines that hold `mark`; each of its lines is set off by `| `."""
    lines = "\n".join(f"| {line}" for line in shown_to_judge("\n".join(text.splitlines())).split("\n"))
    return f"<<<BEGIN {label} {mark}>>>\n{lines}\n<<<END {label} {mark}>>>"
