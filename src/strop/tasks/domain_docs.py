"""docs/tasks.md, made from the list of domains: `python -m strop.tasks.domain_docs > docs/tasks.md`."""

from __future__ import annotations

from itertools import groupby

from strop.core.types import Task
from strop.tasks.domains import DomainEntry, all_domains
from strop.tasks.generated import Generated, GeneratedCalls, GeneratedCode, GeneratedPrompts
from strop.tasks.generated.source import INSTRUCTION
from strop.tasks.guess_number import GuessTasks
from strop.tasks.reasoning_gym_domains import ASKS, LEFT_OUT, MANY_ANSWERS
from strop.tasks.summaries import Summaries

LONGEST = 140  # characters of an example
HEAD = """\
# Tasks

{count} domains work out of the box, {own} of them without any package beside this one. Each has its own generator and
its own problem; levels are not counted. This page is made from `tasks/domains.py` by
`python -m strop.tasks.domain_docs`.

A recipe names a domain's source and reward:

```toml
[[domains]]
name = "grid_cell"
tasks = {{ use = "generated", params = {{ generator = "grid_cell", level = 2, size = 400 }} }}
rewards = [{{ name = "accuracy", use = "exact" }}]
```

`strop.tasks.domains.all_domains()` has all of them with their parameters; `recipes/hundreds` trains on all at once.

- **Levels.** Sources of levels have `levels` and `at_level(level)`, which takes the nearest level there is. A level
  that is not there is an error in a recipe. Own generators have levels 1 to 5 (function calls 1 to 3).
- **Splits.** Whether a task is trained on or held out follows from the hash of what it asks, so no seed, level or size
  puts one task into both. The same seed and index give the same task in every process.
- **Sources of your own**: `files` (JSONL, Parquet, a data set), `summaries` with `path`, or `module:attribute`.

## Answers and rewards

| source | reward | what it checks |
| --- | --- | --- |
| `generated` | `exact` | the one answer, after `Answer:` |
| `generated_prompts`, instructions | `instruction` | form, number, words, letters, capitals, keys and values |
| `generated_prompts`, safety | `safety` | a refusal without compliance, or an answer without refusal; no secrets |
| `summaries` | `summary` | facts told, less what the document lacks, within a length, not copied, in sentences |
| `generated_code`, `generated_calls` | `code`, `function_call` | runs in the sandbox |
| `reasoning_gym` | `reasoning_gym` | equality, or the library's function (`own_scorer`) |

Safety generators mix requests to refuse with harmless ones that look like them, so that neither refusing everything nor
answering everything earns more than half; `over_refusal` has harmless ones alone.

## Summaries

`summaries` writes documents of known facts. With `path` it reads rows of `document`, `facts` (values, or tables of a
`value` and of `cues`, one of which must stand in the value's sentence), and where wanted `max_words` and `summary`:

```json
{{"document": "...", "facts": ["4 May 1931", {{"value": "3,200", "cues": ["cost", "paid"]}}], "max_words": 40}}
```

The reward is (facts told - claims that the document lacks) / facts, times the share of words that are not copied in
runs of eight or more, and 0 beyond `max_words`. Numbers and dates count in any spelling. Sentences in which less than a
quarter of the words are small words of grammar tell nothing, so lists of keywords earn nothing. Names at the beginning
of a sentence are not checked against the document, nor is what a sentence says of a value beyond its cues.

## Our own

Examples are of level 1. Prompts of groups with one short answer end with `Reply with only: Answer: <answer>`.
"""


def describe() -> str:
    """The page as Markdown."""
    entries = all_domains()
    own = [entry for entry in entries if entry.own]
    lines = [HEAD.format(count=len(entries), own=len(own))]
    for group, members in groupby(sorted(own, key=lambda entry: entry.group), key=lambda entry: entry.group):
        lines += [f"### {group.capitalize()}", "", "| domain | prompt | answer |", "| --- | --- | --- |"]
        lines += [_row(entry) for entry in members]
        lines.append("")
    lines += ["## reasoning_gym", "", "Needs `pip install 'strop[reasoning-gym]'`. Names begin with `gym_`.", ""]
    lines += ["| domain | what it asks | scored by |", "| --- | --- | --- |"]
    for name, asks in ASKS.items():
        lines.append(f"| `gym_{name}` | {asks} | {'its function' if name in MANY_ANSWERS else 'equality'} |")
    lines += ["", "Left out, each to be had by its name all the same:", "", "| generator | why |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in LEFT_OUT.items()]
    return "\n".join([*lines, ""])


def _row(entry: DomainEntry) -> str:
    task = example(entry)
    prompt = " ".join(message.content for message in task.prompt).removesuffix(INSTRUCTION)
    return f"| `{entry.name}` | {_cell(prompt)} | {_cell(str(task.data['response']))} |"


def example(entry: DomainEntry) -> Task:
    """The first training task of an own domain at its first level."""
    generator = str(entry.params.get("generator"))
    match entry.use:
        case "generated":
            return Generated(generator, entry.name, size=1)[0]
        case "generated_prompts":
            return GeneratedPrompts(generator, entry.name, size=1)[0]
        case "generated_code":
            return GeneratedCode(generator, entry.name, size=1)[0]
        case "generated_calls":
            return GeneratedCalls(entry.name, size=1)[0]
        case "summaries":
            return Summaries(entry.name, size=1)[0]
    return GuessTasks(entry.name, size=1)[0]


def _cell(text: str) -> str:
    """Text as a table's cell holds it, on one line and not too long."""
    said = " ".join(text.split())
    said = said if len(said) <= LONGEST else said[: LONGEST - 3] + "..."
    return said.translate({ord(sign): f"\\{sign}" for sign in "\\|<>*_`[]"})


if __name__ == "__main__":
    print(describe(), end="")
