import json
import re
import subprocess
import sys
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strop.core.errors import ConfigError, DataError
from strop.core.protocols import Domain
from strop.core.types import Message, RolloutGroup, SamplingParams
from strop.curriculum.mixture import Mixture
from strop.environments.guess_number import GuessNumber
from strop.environments.single_turn import SingleTurn
from strop.tasks.files import Files
from strop.tasks.generated import GENERATORS, Generated
from strop.tasks.guess_number import GuessTasks
from strop.tasks.memory import InMemory
from strop.tasks.rows import task_of
from strop.tasks.teaching import conversation
from strop.testing import ListSource, check_environment


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_generated_splits_never_meet_and_every_level_works(name):
    for level in (1, 3, 5):
        train = Generated(name, "d", level=level, size=60)
        held_out = Generated(name, "d", level=level, split="held_out", size=20, seed=7)
        assert len(train) and len(held_out)
        assert not {t.id for t in train} & {t.id for t in held_out}
        assert len({t.id for t in train}) == len(train)
        for task in (train[0], held_out[len(held_out) - 1]):
            assert str(task.reference).strip() and task.level == level
            assert conversation(task)[-1].content == f"Answer: {task.reference}"


def iterate(source):
    return [source[i] for i in range(len(source))]


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text.split(" Reply")[0])]


def points(question):
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)[;.]", question)}


RECOMPUTED = {
    "sum": lambda n, q: n[0] + n[1],
    "difference": lambda n, q: n[0] - n[1],
    "product": lambda n, q: n[0] * n[1],
    "sum_of_list": lambda n, q: sum(n),
    "remainder": lambda n, q: n[0] % n[1],
    "division": lambda n, q: n[0] // n[1],
    "largest": lambda n, q: max(n),
    "missing_number": lambda n, q: n[1] - n[0],
    "digit_sum": lambda n, q: sum(int(d) for d in str(n[0])),
    "common_divisor": lambda n, q: max(d for d in range(1, min(n) + 1) if n[0] % d == n[1] % d == 0),
    "brackets": lambda n, q: eval(q.split("What is ")[1].split("?")[0]),
    "count_letter": lambda n, q: q.split(": ")[1].split("?")[0].split().count(q.split()[3]),
    "table_difference": lambda n, q: (lambda more, less: points(q)[more] - points(q)[less])(
        *re.search(r"has (\w+) than (\w+)", q).groups()
    ),
    "table_count": lambda n, q: sum(v > n[-1] for v in points(q).values()),
    "table_lookup": lambda n, q: points(q)[re.search(r"has (\w+)", q)[1]],
}


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_answers_are_right(name):
    for task in iterate(Generated(name, "d", level=2, size=100)):
        question = task.prompt[0].content
        assert int(task.reference) == RECOMPUTED[name](numbers(question), question)


WORDED = {
    "truth": lambda q: str(eval(q.split("is: ")[1].split("?")[0].title().replace("And", "and").replace("Or", "or")
                                .replace("Not", "not"))).lower(),
    "parity": lambda q: "odd" if eval(q.split("Is ")[1].split(" even")[0]) % 2 else "even",
    "comparison": lambda q: (lambda left, right: "yes" if eval(left) > int(right) else "no")(
        *re.search(r"Is (.*) greater than (\d+)", q).groups()
    ),
    "table_best": lambda q: max(points(q), key=points(q).get),
    "first_in_alphabet": lambda q: sorted(re.findall(r"\w+", q.split(": ")[1].split("?")[0]))[0],
    "reverse_words": lambda q: " ".join(q.split(": ")[1].split(" Reply")[0].split()[::-1]),
    "sort_letters": lambda q: " ".join(sorted(q.split(": ")[1].split(" Reply")[0].split())),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WORDED))
def test_worded_answers_are_right(name):
    for task in iterate(Generated(name, "d", level=3, size=100)):
        assert task.reference == WORDED[name](task.prompt[0].content), task.prompt[0].content


def test_generators_repeat_in_another_process():
    code = "from strop.tasks.generated import Generated as G; print([G('truth', 'd', level=3)[i].id for i in range(9)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([Generated("truth", "d", level=3)[i].id for i in range(9)])


def rows(count=60):
    return [{"prompt": f"Say {n}", "answer": str(n)} for n in range(count)]


def test_jsonl_and_parquet_give_the_same_disjoint_splits(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows() + rows(5))))
    pq.write_table(pa.Table.from_pylist(rows()), tmp_path / "a.parquet")
    found = {}
    for file in ("a.jsonl", "a.parquet"):
        train, held = (Files(str(tmp_path / file), "d", split=s) for s in ("train", "held_out"))
        assert len(train) + len(held) == 60 and len(held) > 0
        assert not {t.id for t in iterate(train)} & {t.id for t in iterate(held)}
        found[file] = {t.id for t in iterate(train)}
    assert found["a.jsonl"] == found["a.parquet"]


def test_a_local_data_set_of_the_datasets_library(tmp_path):
    datasets = pytest.importorskip("datasets")
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_list(rows()).to_parquet(tmp_path / "set" / "train-00000.parquet")
    assert len(Files(str(tmp_path / "set"), "d")) > 40


USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}


@pytest.mark.parametrize(
    ("row", "prompt", "reference", "response"),
    [
        ({"prompt": "hi", "completion": "hello"}, ["hi"], None, "hello"),
        ({"messages": [USER, SAID]}, ["hi"], None, "hello"),
        ({"messages": [USER, SAID, USER, SAID]}, ["hi", "hello", "hi"], None, "hello"),
        ({"prompt": [USER], "chosen": [SAID], "rejected": [USER]}, ["hi"], None, "hello"),
        ({"question": "hi", "answer": "4"}, ["hi"], "4", None),
        ({"problem": "hi", "solution": "4"}, ["hi"], "4", None),
        ({"prompt": "hi", "ground_truth": 0}, ["hi"], 0, None),
    ],
)
def test_the_column_forms_of_users(row, prompt, reference, response):
    task = task_of(row, domain="d", where="row 1")
    assert [m.content for m in task.prompt] == prompt
    assert task.reference == reference
    assert task.data.get("response") == response


def test_named_columns_must_be_there():
    task = task_of({"q": "hi", "a": "4"}, domain="d", where="row 1", prompt="q", reference="a")
    assert (task.prompt[0].content, task.reference) == ("hi", "4")
    with pytest.raises(DataError, match="row 1: no column 'b'; there are q, a"):
        task_of({"q": "hi", "a": "4"}, domain="d", where="row 1", prompt="q", reference="b")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "human", "content": "hi"}, "role 'human' must be one of system, user, assistant, tool"),
        ({"role": "user", "content": [{"text": "hi"}]}, "content must be text, got list"),
        ({"content": "hi"}, "a message needs role and content"),
    ],
)
def test_messages_of_another_form_are_refused(message, words):
    with pytest.raises(DataError, match=f"row 1, column prompt: .*{words}"):
        task_of({"prompt": [message]}, domain="d", where="row 1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no row"),
        (b'{"prompt": "a"}\n{"prompt": \n', "line 2: not valid JSON, one object a line"),
        (b'{"prompt": "a"}\n{"prompt": "\xff"}\n', "line 2: not valid JSON"),
        (b"[1]\n", "line 1: must be one JSON object a line, got list"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content, words):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        Files(str(tmp_path / "a.jsonl"), "d")
    assert "\n" not in str(caught.value)


def test_a_handful_of_rows_in_memory_has_both_splits():
    train, held = (InMemory(rows(2), "d", split=s) for s in ("train", "held_out"))
    assert len(train) == len(held) == 1 and train[0].id != held[0].id


SAME = {"prompt": "hi", "answer": "4"}


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ((task_of(SAME, domain="d", where="row"),) * 2, "row 1: another row before it has the same id"),
        (tuple(replace(task_of(SAME, domain="d", where="row"), reference=r) for r in "45"), "give each its own"),
        ((SAME, {**SAME, "answer": "5"}), "row 1: another row before it has the same prompt"),
        ((SAME, {**SAME, "tests": [1]}), "the same prompt; leave one out"),
    ],
)
@pytest.mark.parametrize("split", ["train", "held_out"])
def test_two_tasks_in_memory_with_one_id_are_an_error(pair, said, split):
    with pytest.raises(DataError, match=said):
        InMemory(pair, "d", split=split)


def test_a_row_in_memory_that_is_there_twice_counts_once():
    twice = InMemory([*rows(4), *rows(4)], "d")
    assert iterate(twice) == iterate(InMemory(rows(4), "d"))


def test_a_task_without_response_cannot_be_taught():
    with pytest.raises(DataError, match="no response"):
        conversation(task_of({"prompt": "hi", "answer": "4"}, domain="d", where="row"))


def domain(name, count, weight):
    source = ListSource(tuple(task_of(row, domain=name, where="row") for row in rows(count)))
    reward = ()
    return Domain(
        name=name,
        tasks=source,
        held_out=source,
        environment=SingleTurn,
        rewards=reward,
        sampling=SamplingParams(max_tokens=1),
        weight=weight,
    )


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.8, 0.2), (0.003, 0.997), (1, 2, 3.5), (0, 1)])
def test_shares_are_exact_after_every_ticket(weights):
    domains = [domain(f"d{n}", (10, 1000, 7)[n], weight) for n, weight in enumerate(weights)]
    mixture = Mixture(domains=domains, seed=1, lag=1000)
    start = mixture.start()
    counts = dict.fromkeys((d.name for d in domains), 0)
    for ticket in range(1000):
        counts[mixture.assign(start, ticket).domain] += 1
        for d in domains:
            assert abs(counts[d.name] - (ticket + 1) * d.weight / sum(weights)) < 1.0 + 1e-9


def test_a_small_domain_is_reshuffled_and_tickets_repeat():
    def ids(seed, tickets):
        mixture = Mixture(domains=[domain("small", 10, 1.0)], seed=seed, lag=30)
        return [mixture.assign(mixture.start(), ticket).id for ticket in tickets]

    found = ids(1, range(30))
    assert set(found[:10]) == set(found[10:20]) == set(found[20:]) and found[:10] != found[10:20]
    assert ids(1, reversed(range(30))) == found[::-1]
    assert ids(2, range(10)) != found[:10]


def test_a_large_domain_is_shuffled_once_an_epoch():
    mixture = Mixture(domains=[domain("large", 60_000, 1.0)], seed=1, lag=200)
    start = mixture.start()
    started = time.perf_counter()
    assert len({mixture.assign(start, ticket).id for ticket in range(200)}) == 200
    assert time.perf_counter() - started < 2.0  # one shuffle takes a twentieth of a second


def test_the_mixture_counts_what_it_observes():
    mixture = Mixture(domains=[domain("a", 3, 1.0)], seed=1, lag=1)
    start = mixture.start()
    group = RolloutGroup(ticket=0, attempt=0, task=mixture.assign(start, 0), rollouts=())
    assert mixture.observe(start, group)["observed"] == {"a": 1}
    with pytest.raises(ConfigError, match="weight 0"):
        Mixture(domains=[domain("a", 3, 0.0)], seed=1, lag=1)


async def test_environments_keep_their_promises():
    task = GuessTasks("d")[0]
    await check_environment(SingleTurn, task, ["anything"])
    await check_environment(GuessNumber, task, ["Answer: 0", "no idea", "Answer: -5", "Answer: 900"])


async def test_the_guessing_game_says_higher_and_lower_and_remembers():
    task = GuessTasks("d", level=3)[4]
    hidden = task.reference
    game = GuessNumber(max_guesses=4)
    await game.start(task)
    low = await game.step(Message(role="assistant", content=f"Answer: {hidden - 1}"))
    assert low.replies[0].content.startswith("Higher. 3 left")
    fork = game.fork()
    high = await game.step(Message(role="assistant", content=f"Answer: {hidden + 1}"))
    assert high.replies[0].content.startswith("Lower. 2 left")
    assert (await game.step(Message(role="assistant", content=f"Answer: {hidden}"))).done
    assert await game.close() == {"guesses": [hidden - 1, hidden + 1, hidden], "found": True}
    assert await fork.close() == {"guesses": [hidden - 1], "found": False}


def test_guess_splits_never_meet():
    train, held = (GuessTasks("d", split=s, size=50) for s in ("train", "held_out"))
    assert not {t.id for t in iterate(train)} & {t.id for t in iterate(held)}
