"""Small grids of letters or numbers, written row by row with a slash between rows. The level sets their size."""

from __future__ import annotations

from random import Random

from strop.tasks.generated.problem import Problem

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = ((2, 2), (2, 3), (3, 3), (3, 4), (4, 4))
ORDINALS = ("first", "second", "third", "fourth")
WAYS = {"right": (0, 1), "left": (0, -1), "down": (1, 0), "up": (-1, 0)}


def _letters(draw: Random, level: int) -> list[list[str]]:
    rows, columns = SIZES[level - 1]
    letters = draw.sample(LETTERS, rows * columns)
    return [letters[i * columns : (i + 1) * columns] for i in range(rows)]


def _shown(grid: list[list[str]]) -> str:
    return " / ".join(" ".join(row) for row in grid)


def grid_cell(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    row, column = draw.randrange(len(grid)), draw.randrange(len(grid[0]))
    question = f"Grid: {_shown(grid)}. What stands in row {row + 1}, column {column + 1}?"
    return Problem(question, grid[row][column])


def grid_place(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    row, column = draw.randrange(len(grid)), draw.randrange(len(grid[0]))
    return Problem(f"Grid: {_shown(grid)}. Row and column of {grid[row][column]}?", f"{row + 1} {column + 1}")


def grid_column(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    column = draw.randrange(len(grid[0]))
    question = f"Grid: {_shown(grid)}. Write the {ORDINALS[column]} column."
    return Problem(question, " ".join(row[column] for row in grid))


def grid_neighbour(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    row, column = draw.randrange(len(grid)), draw.randrange(len(grid[0]))
    way, (down, right) = draw.choice(list(WAYS.items()))
    if not (0 <= row + down < len(grid) and 0 <= column + right < len(grid[0])):
        return grid_neighbour(draw, level)
    where = {"right": "right of", "left": "left of", "down": "below", "up": "above"}[way]
    question = f"Grid: {_shown(grid)}. What stands {where} {grid[row][column]}?"
    return Problem(question, grid[row + down][column + right])


def grid_mirror(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    if draw.random() < 0.5:
        return Problem(f"Grid: {_shown(grid)}. Reverse each row.", _shown([row[::-1] for row in grid]))
    return Problem(f"Grid: {_shown(grid)}. Reverse the order of the rows.", _shown(grid[::-1]))


def grid_turned(draw: Random, level: int) -> Problem:
    grid = _letters(draw, level)
    return Problem(
        f"Grid: {_shown(grid)}. Make its columns the rows.", _shown([list(c) for c in zip(*grid, strict=True)])
    )


def grid_count(draw: Random, level: int) -> Problem:
    rows, columns = SIZES[level - 1]
    kinds = draw.sample(LETTERS, 3)
    grid = [[draw.choice(kinds) for _ in range(columns)] for _ in range(rows)]
    count = sum(row.count(kinds[0]) for row in grid)
    return Problem(f"Grid: {_shown(grid)}. How many {kinds[0]} are in it?", str(count))


def grid_sum(draw: Random, level: int) -> Problem:
    rows, columns = SIZES[level - 1]
    grid = [[draw.randrange(1, 10) for _ in range(columns)] for _ in range(rows)]
    shown = _shown([[str(number) for number in row] for row in grid])
    place = draw.randrange(rows if draw.random() < 0.5 else columns)
    kind = draw.choice([kind for kind, count in (("row", rows), ("column", columns)) if place < count])
    line = grid[place] if kind == "row" else [row[place] for row in grid]
    return Problem(f"Grid: {shown}. What is the sum of the {ORDINALS[place]} {kind}?", str(sum(line)))


def walk(draw: Random, level: int) -> Problem:
    row, column = start = draw.randrange(1, 6), draw.randrange(1, 6)
    steps = []
    for way in draw.choices(list(WAYS), k=level):
        count = draw.randrange(1, 4)
        row, column = row + count * WAYS[way][0], column + count * WAYS[way][1]
        steps.append(f"{count} {way}")
    if min(row, column) < 1:
        return walk(draw, level)
    return Problem(
        f"Start in row {start[0]}, column {start[1]}. Go {', '.join(steps)}. Row and column?", f"{row} {column}"
    )


def turning(draw: Random, level: int) -> Problem:
    compass = ("north", "east", "south", "west")
    place = start = draw.randrange(4)
    turns = draw.choices(("left", "right", "round"), k=2 + level)
    for turn in turns:
        place += {"left": -1, "right": 1, "round": 2}[turn]
    return Problem(
        f"You face {compass[start]} and turn {', then '.join(turns)}. Where do you face?", compass[place % 4]
    )
