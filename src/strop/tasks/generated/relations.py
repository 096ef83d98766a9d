"""Tables with several columns, order, exchange and simple rules. The level sets how many facts there are."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from strop.tasks.generated.logic import NAMES
from strop.tasks.generated.problem import Problem

THINGS = ("ball", "book", "coin", "cup", "hat", "key", "map", "pen", "ring", "shoe")
CITIES = ("Arlen", "Bern", "Como", "Delft", "Essen", "Faro", "Ghent", "Halle")
SIGNS = ("rock", "paper", "scissors")


def _points(draw: Random, rows: int, top: int = 50) -> dict[str, int]:
    return dict(zip(draw.sample(NAMES, rows), draw.sample(range(1, top), rows), strict=True))


def _shown(table: dict[str, int]) -> str:
    return "; ".join(f"{name} {value}" for name, value in table.items())


def table_sum(draw: Random, level: int) -> Problem:
    table = _points(draw, 2 + level, 10 + 10 * level)
    names = draw.sample(list(table), 2 if level < 4 else 3)
    question = f"Points: {_shown(table)}. How many points have {' and '.join(names)} together?"
    return Problem(question, str(sum(table[name] for name in names)))


def table_rank(draw: Random, level: int) -> Problem:
    table = _points(draw, 2 + level)
    ranked = sorted(table, key=table.__getitem__, reverse=True)
    place = draw.randrange(min(3, len(ranked)))
    return Problem(f"Points: {_shown(table)}. Who is in place {place + 1}?", ranked[place])


def table_order(draw: Random, level: int) -> Problem:
    table = _points(draw, 2 + level)
    ranked = sorted(table, key=table.__getitem__, reverse=True)
    return Problem(f"Points: {_shown(table)}. Write the names, most points first.", " ".join(ranked))


def table_above(draw: Random, level: int) -> Problem:
    table = _points(draw, 2 + level)
    limit = draw.randrange(1, max(table.values()))
    names = [name for name, value in table.items() if value > limit]
    return Problem(f"Points: {_shown(table)}. Who has more than {limit}?", " ".join(names))


def table_owner(draw: Random, level: int) -> Problem:
    table = _points(draw, 2 + level)
    name = draw.choice(list(table))
    return Problem(f"Points: {_shown(table)}. Who has {table[name]} points?", name)


def table_two_columns(draw: Random, level: int) -> Problem:
    count = 1 + level
    names, cities = draw.sample(NAMES, count), draw.sample(CITIES, count)
    things = draw.sample(THINGS, count)
    rows = "; ".join(" ".join(row) for row in zip(names, cities, things, strict=True))
    place = draw.randrange(count)
    asked, answer = draw.choice(
        (
            (f"Where is the {things[place]}", cities[place]),
            (f"What has {names[place]}", things[place]),
            (f"Who is in {cities[place]}", names[place]),
        )
    )
    return Problem(f"Name, city, thing: {rows}. {asked}?", answer)


def exchange(draw: Random, level: int) -> Problem:
    names, things = draw.sample(NAMES, 2 + level // 2), draw.sample(THINGS, 2 + level // 2)
    owner = dict(zip(names, things, strict=True))
    start = ", ".join(f"{name} has the {thing}" for name, thing in owner.items())
    swaps = []
    for _ in range(level):
        a, b = draw.sample(names, 2)
        owner[a], owner[b] = owner[b], owner[a]
        swaps.append(f"{a} and {b} swap.")
    name = draw.choice(names)
    return Problem(f"{start}. {' '.join(swaps)} What has {name}?", owner[name])


def giving(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 2 + level)
    thing = draw.choice(THINGS)
    steps = [f"{names[0]} has the {thing}."]
    holder = names[0]
    for _ in range(level):
        to = draw.choice([name for name in names if name != holder])
        steps.append(f"{holder} gives it to {to}.")
        holder = to
    return Problem(f"{' '.join(steps)} Who has it?", holder)


def stack(draw: Random, level: int) -> Problem:
    things = draw.sample(THINGS, 2 + level)
    pile: list[str] = []
    steps = []
    for thing in things:
        if len(pile) > 1 and draw.random() < 0.4:
            pile.pop()
            steps.append("take one off")
        pile.append(thing)
        steps.append(f"put the {thing}")
    if level > 1:
        pile.pop()
        steps.append("take one off")
    return Problem(f"A pile: {', '.join(steps)}. What is on top?", pile[-1])


def queue(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 3 + level)
    line, rest = names[: 2 + level // 2], names[2 + level // 2 :]
    steps = []
    for name in rest:
        if len(line) > 1 and draw.random() < 0.5:
            line = line[1:]
            steps.append("the first leaves")
        line = [*line, name]
        steps.append(f"{name} joins")
    start = " ".join(names[: 2 + level // 2])
    last = draw.random() < 0.3
    return Problem(
        f"A queue: {start}. Then {', '.join(steps)}. Who is {'last' if last else 'first'}?", line[-1 if last else 0]
    )


def rules(draw: Random, level: int) -> Problem:
    letters = draw.sample("abcdefghijklmnopqrstuvwxyz", 3 + level)
    chain, others = letters[: 1 + level], letters[1 + level :]
    facts = [f"{a} leads to {b}" for a, b in pairwise(chain)]
    facts.append(f"{others[0]} leads to {others[1]}")
    draw.shuffle(facts)
    holds = draw.random() < 0.5
    start, end = (chain[0], chain[-1]) if holds else draw.choice(((chain[-1], chain[0]), (chain[0], others[1])))
    return Problem(f"{'. '.join(facts)}. Does {start} lead to {end}? Yes or no.", "yes" if holds else "no")


def implication(draw: Random, level: int) -> Problem:
    values = {name: draw.random() < 0.5 for name in draw.sample("abcdfghkmpqrst", 2 + level // 2)}
    shown = ", ".join(f"{name} is {str(value).lower()}" for name, value in values.items())
    a, b = draw.sample(list(values), 2)
    left = draw.random() < 0.5 and level > 1
    right = draw.random() < 0.5 and level > 2
    value = values[a] == left or values[b] != right
    said = f"{'not ' if left else ''}{a} implies {'not ' if right else ''}{b}"
    other = draw.choice(list(values))
    if level > 3:
        said, value = f"({said}) and {other}", value and values[other]
    return Problem(f"{shown}. True or false: {said}?", str(value).lower())


def who_wins(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 2)
    score = [0, 0]
    rounds: list[str] = []
    while len(rounds) < 2 * level - 1:
        a, b = draw.sample(range(3), 2)
        score[0 if (a - b) % 3 == 1 else 1] += 1
        rounds.append(f"{SIGNS[a]} {SIGNS[b]}")
    said = ", ".join(rounds)
    return Problem(f"{names[0]} and {names[1]} play rock paper scissors: {said}. Who wins?", names[score[1] > score[0]])


def sitting(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 2 + level)
    facts = [f"{b} sits right of {a}" for a, b in pairwise(names)]
    draw.shuffle(facts)
    place = draw.randrange(len(names))
    return Problem(
        f"In a row, next to each other: {'. '.join(facts)}. Who is number {place + 1} from the left?", names[place]
    )


def ages(draw: Random, level: int) -> Problem:
    names = draw.sample(NAMES, 1 + level)
    age = draw.randrange(20, 60)
    facts = [f"{names[0]} is {age}."]
    for before, name in pairwise(names):
        step = draw.choice((-1, 1)) * draw.randrange(1, 10)
        age += step
        facts.append(f"{name} is {abs(step)} years {'older' if step > 0 else 'younger'} than {before}.")
    if age < 1:
        return ages(draw, level)
    return Problem(f"{' '.join(facts)} How old is {names[-1]}?", str(age))
