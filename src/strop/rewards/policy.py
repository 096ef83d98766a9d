"""The reward of house rules: each is something an answer must or must not do, and is cited by its id when broken."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import regex

from strop.core.types import Rollout, Score, Task
from strop.rewards.extract import visible
from strop.rewards.judge_guard import plain

PATTERN_TIMEOUT_S = 0.5  # the policy chooses the text, and some patterns take forever on some texts
KINDS = ("must", "must_not")
CHECKS = {"pattern": KINDS, "phrases": KINDS, "max_words": ("must",), "max_chars": ("must",), "topics": ("must_not",)}
MAX_DETAIL = 1000


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: `kind` of what `check` names, with its `value`."""

    id: str
    kind: Literal["must", "must_not"]
    check: str
    value: Any
    weight: float = 1.0

    def breach(self, text: str, shown: str) -> str | None:
        """How `text` breaks the rule, None where it keeps it; `shown` is its plain form, in which phrases are found."""
        match self.check:
            case "pattern":
                return self._pattern_breach(text)
            case "phrases":
                found = [phrase for phrase, pattern in self.value if pattern.search(shown)]
                if self.kind == "must_not":
                    return f"says {found[0]!r}" if found else None
                return next((f"lacks {phrase!r}" for phrase, _ in self.value if phrase not in found), None)
            case "topics":
                hits = ((topic, term) for topic, term, pattern in self.value if pattern.search(shown))
                return next((f"{topic}: {term!r}" for topic, term in hits), None)
        count, unit = (len(text.split()), "words") if self.check == "max_words" else (len(text), "characters")
        return f"{count} {unit}, {self.value} allowed" if count > self.value else None

    def _pattern_breach(self, text: str) -> str | None:
        """A text on which the pattern finds no end breaks the rule: nobody may earn by that."""
        try:
            found = self.value.search(text, timeout=PATTERN_TIMEOUT_S)
        except TimeoutError:
            return f"no verdict in {PATTERN_TIMEOUT_S:g} s"
        if self.kind == "must":
            return None if found else "not found"
        return f"says {found[0][:60]!r}" if found else None


@dataclass(frozen=True)
class PolicyReward:
    """The weighted share of `rules` that the answer keeps; with `score = "all"` 1 when it keeps every one, else 0.

    `rules` is a TOML file of `[[rules]]` tables or the tables themselves, each with an `id`, one of `must` and
    `must_not`, and a `weight` (1). The detail cites the rules that are broken. The thinking part is not read unless
    `thinking`.
    """

    rules: str | Path | Sequence[Mapping[str, Any]]
    score: Literal["share", "all"] = "share"
    thinking: bool = False
    _rules: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.score not in ("share", "all"):
            raise ValueError(f"score must be 'share' or 'all', got {self.score!r}")
        object.__setattr__(self, "_rules", read_rules(self.rules))

    def __call__(self, rollout: Rollout, task: Task) -> Score:
        text = rollout.text if self.thinking else visible(rollout.text)
        shown = plain(text)
        breaches = {rule: breach for rule in self._rules if (breach := rule.breach(text, shown)) is not None}
        whole = sum(rule.weight for rule in self._rules)
        value = 1.0 - sum(rule.weight for rule in breaches) / whole
        if not breaches:
            return Score(value=1.0, detail=f"keeps all {len(self._rules)} rules")
        cited = "; ".join(f"{rule.id} ({breach})" for rule, breach in breaches.items())
        detail = f"breaks {len(breaches)} of {len(self._rules)} rules: {cited}"
        return Score(value=0.0 if self.score == "all" else max(0.0, value), detail=detail[:MAX_DETAIL])


def read_rules(given: str | Path | Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The rules of a file or of tables. ValueError names the file, the rule and what to change in it."""
    if not isinstance(given, str | Path):
        return tuple(_rules(given, "rules"))
    try:
        content = tomllib.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{given}: cannot be read ({error.strerror}); rules names a TOML file of [[rules]]") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{given}: not valid TOML: {error}") from error
    if set(content) != {"rules"}:
        raise ValueError(f"{given}: must hold [[rules]] and nothing else, has {', '.join(content) or 'nothing'}")
    return tuple(_rules(content["rules"], str(given)))


def _rules(tables: Any, where: str) -> Iterator[Rule]:
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        raise ValueError(f"{where}: must be a list of at least one table, got {tables!r}")
    seen: set[str] = set()
    for number, table in enumerate(tables, start=1):
        if not isinstance(table, Mapping) or not isinstance(table.get("id"), str) or not table["id"].strip():
            raise ValueError(f"{where}: rule {number} needs an id to be cited by, and a must or must_not")
        if table["id"] in seen:
            raise ValueError(f"{where}: two rules have the id {table['id']!r}; give each its own")
        seen.add(table["id"])
        yield _rule(table, f"{where}: rule {table['id']!r}")


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    _refuse_unknown(table, ("id", "weight", *KINDS), where)
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        raise ValueError(f"{where}: needs one of must and must_not, has {' and '.join(kinds) or 'neither'}")
    kind, checks = kinds[0], table[kinds[0]]
    possible = [check for check, kinds in CHECKS.items() if kind in kinds]
    if not isinstance(checks, Mapping) or len(checks) != 1:
        raise ValueError(f"{where}: {kind} must be a table with one of {', '.join(possible)}")
    _refuse_unknown(checks, possible, f"{where}, {kind}")
    weight = table.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise ValueError(f"{where}: weight must be a number above 0, got {weight!r}")
    [(check, value)] = checks.items()
    return Rule(id=table["id"], kind=kind, check=check, value=_value(check, value, where), weight=float(weight))


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{where}: unknown key {key!r}; {hint}")


def _value(check: str, value: Any, where: str) -> Any:
    match check:
        case "pattern":
            try:
                return regex.compile(value)
            except (regex.error, TypeError, ValueError) as error:
                raise ValueError(f"{where}: pattern {value!r} is no regular expression: {error}") from error
        case "phrases":
            return tuple((phrase, _as_words(phrase)) for phrase in _texts(value, f"{where}: phrases"))
        case "topics":
            if not isinstance(value, Mapping) or not value:
                raise ValueError(f"{where}: topics must be a table of names with their words, got {value!r}")
            named = [(topic, term) for topic in value for term in _texts(value[topic], f"{where}: topic {topic!r}")]
            return tuple((topic, term, _as_words(term)) for topic, term in named)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{where}: {check} must be a whole number of at least 1, got {value!r}")
    return value


def _texts(value: Any, where: str) -> Sequence[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ValueError(f"{where} must be a list of at least one text, got {value!r}")
    for text in value:
        if not isinstance(text, str) or not plain(text).strip():
            raise ValueError(f"{where} holds {text!r}, which is no text to look for")
    return value


def _as_words(phrase: str) -> regex.Pattern[str]:
    """Finds the phrase in plain text: its words in order, whole, whatever blanks lie between them."""
    words = r"\s+".join(regex.escape(word) for word in plain(phrase).split())
    return regex.compile(rf"(?<!\w){words}(?!\w)")
