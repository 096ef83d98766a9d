"""All domains out of the box: how many, that their splits never meet, that golds earn 1 and junk does not."""

import asyncio
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import completion

from strop.audit.answers import Pool, gold_candidates, junk_answers
from strop.audit.audit import Effort, audit_domain
from strop.audit.findings import FAIL_CHANCE, lower_end
from strop.config.component import Component
from strop.config.load import load_recipe
from strop.config.resolve import ENVIRONMENTS, REWARDS, TASKS, locate, make
from strop.config.schema import DomainConfig
from strop.core.errors import ConfigError, DataError
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Message, Rollout, SamplingParams, Turn
from strop.environments.single_turn import SingleTurn
from strop.tasks.domain_docs import describe
from strop.tasks.domains import all_domains, recipe_lines
from strop.tasks.summaries import Summaries

ROOT = Path(__file__).parents[2]
BOUND = 0.2
OWN = all_domains(reasoning_gym=False)
BY_RULE = [entry for entry in OWN if not entry.sandbox and entry.environment == "single_turn"]
NAMES = [entry.name for entry in OWN]


def source_of(entry, **params):
    component = Component(use=entry.use, params={**entry.params, **params})
    return make(component, TASKS, f"domain {entry.name!r}", domain=entry.name)


def content(task):
    return [(message.role, message.content) for message in task.prompt]


def iterate(source):
    return [source[i] for i in range(len(source))]


def said(text):
    message = Message(role="assistant", content=text)
    turn = Turn(input_ids=[1], continues=False, completion=completion([5]), message=message)
    return Rollout(task_id="t", index=0, turns=(turn,), status="ok")


def test_there_are_hundreds_each_with_its_own_generator():
    entries = all_domains()
    assert len(entries) >= 150 and len(OWN) >= 60
    assert len({entry.name for entry in entries}) == len(entries)
    assert len({(entry.use, entry.params.get("generator")) for entry in entries}) == len(entries)
    assert all("level" not in entry.params for entry in entries)
    assert len(Counter(entry.group for entry in entries)) >= 15


@pytest.mark.parametrize("entry", all_domains(), ids=lambda entry: entry.name)
def test_every_entry_is_a_domain_of_a_recipe(entry):
    section = DomainConfig.model_validate(entry.section())
    assert locate(section.tasks.use, TASKS, "x") and locate(section.environment.use, ENVIRONMENTS, "x")
    assert section.signal in {reward.name for reward in section.rewards}
    assert all(locate(reward.use, REWARDS, "x") for reward in section.rewards)


@pytest.mark.parametrize("entry", OWN, ids=NAMES)
def test_every_level_has_both_splits_which_never_meet(entry):
    start = source_of(entry, size=24)
    held_out = source_of(entry, split="held_out", size=8)
    assert len(start.levels) >= 3 and start.levels == tuple(range(1, start.levels[-1] + 1))
    seen = {"train": set(), "held_out": set()}
    for level in start.levels:
        for split, source in (("train", start.at_level(level)), ("held_out", held_out.at_level(level))):
            tasks = iterate(source)
            assert len(tasks) >= 3 and {task.level for task in tasks} == {level}
            assert {task.domain for task in tasks} == {entry.name}
            assert len({task.id for task in tasks}) == len(tasks) == len({str(content(task)) for task in tasks})
            assert all(task.data["response"] for task in tasks)
            seen[split] |= {task.id for task in tasks}
    assert not seen["train"] & seen["held_out"]


@pytest.mark.parametrize("entry", OWN, ids=NAMES)
def test_levels_clamp_when_moved_and_are_an_error_in_a_recipe(entry):
    source = source_of(entry, size=4)
    top = source.levels[-1]
    assert source.at_level(99).level == top and source.at_level(-1).level == 1
    with pytest.raises(ConfigError, match=rf"domain '{entry.name}': level must be from 1 to {top}, got {top + 1}"):
        source_of(entry, level=top + 1, size=4)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(OWN), st.integers(0, 9), st.integers(0, 9), st.integers(-1, 6), st.integers(-1, 6))
def test_no_seed_or_level_puts_a_task_into_both_splits(entry, seed, other_seed, level, other_level):
    train = source_of(entry, seed=seed, size=40).at_level(level)
    held_out = source_of(entry, seed=other_seed, size=20, split="held_out").at_level(other_level)
    again = source_of(entry, seed=seed, size=40).at_level(level)
    assert not {task.id for task in iterate(train)} & {task.id for task in iterate(held_out)}
    assert not {str(content(task)) for task in iterate(train)} & {str(content(task)) for task in iterate(held_out)}
    assert iterate(again) == iterate(train)


PRINTS = """
import hashlib
from strop.config.resolve import TASKS, make
from strop.config.component import Component
from strop.tasks.domains import all_domains
text = ""
for entry in all_domains(reasoning_gym=False):
    component = Component(use=entry.use, params={**entry.params, "size": 3, "level": 3})
    source = make(component, TASKS, "x", domain=entry.name)
    text += "".join(repr((t.id, t.prompt, t.reference, dict(t.data))) for t in (source[i] for i in range(len(source))))
print(len(text), hashlib.sha256(text.encode()).hexdigest())
"""


def test_tasks_are_the_same_in_every_process():
    printed = [
        subprocess.run(
            [sys.executable, "-c", PRINTS],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] and int(printed[0].split()[0]) > 50_000


@pytest.mark.parametrize("entry", BY_RULE, ids=[entry.name for entry in BY_RULE])
def test_golds_earn_all_and_junk_stays_under_the_bound(entry):
    """As the audit judges, without its environment: all of its junk, on tasks of the first and the last level."""
    [reward] = entry.rewards
    score = make(Component(use=reward["use"], params=reward.get("params", {})), REWARDS, "x")
    for level in (1, 5):
        tasks = iterate(source_of(entry, level=level, size=120))
        pool, earned = Pool.of(tasks), defaultdict(list)
        for task in tasks[:8]:
            [gold, *_] = gold_candidates(task)
            assert gold.text == task.data["response"] and score(said(gold.text), task).value == 1.0
            best = {}
            for junk in junk_answers(task, gold, pool):
                value = score(said(junk.text), task).value
                best[junk.kind, junk.guess] = max(value, best.get((junk.kind, junk.guess), 0.0))
            for kind, value in best.items():
                earned[kind].append(value)
        for (kind, guess), values in earned.items():
            limit = max(BOUND, pool.majority[1]) if guess else BOUND
            assert lower_end(values, FAIL_CHANCE) <= limit, (level, kind, fmean(values))


@pytest.mark.parametrize(
    "name", ["sum", "prime", "walk", "from_morse", "bullet_points", "harmful_requests", "summaries"]
)
def test_the_audit_passes(name):
    [entry] = [entry for entry in OWN if entry.name == name]
    [reward] = entry.rewards
    source = source_of(entry, size=100)
    domain = Domain(
        name=name,
        tasks=source,
        held_out=source,
        environment=SingleTurn,
        rewards=(NamedReward(name="accuracy", fn=make(Component(use=reward["use"]), REWARDS, "x")),),
        sampling=SamplingParams(max_tokens=entry.max_tokens),
    )
    audit = asyncio.run(audit_domain(domain, Effort(bound=BOUND, num_tasks=8, seconds=60.0, max_wait_s=10.0)))
    assert audit.gold_mean == 1.0 and "fail" not in {finding.verdict for finding in audit.findings}, audit.findings


def test_the_page_of_all_domains_is_made_from_the_code():
    assert (ROOT / "docs" / "tasks.md").read_text() == describe()


def test_the_recipe_of_hundreds_holds_all_domains():
    recipe = ROOT / "recipes" / "hundreds" / "run.toml"
    assert recipe_lines(all_domains()) in recipe.read_text()
    assert [domain.name for domain in load_recipe(recipe).domains] == [entry.name for entry in all_domains()]


DOCUMENT = "The mill of Arlen burned down in 1931. It was built again by Ann Miller for 3,200 crowns in two years."


def rows(count=40):
    facts = [1931, {"value": "3,200", "cues": ["cost", "crown"]}]
    return [
        {"document": f"{DOCUMENT} {n} people came.", "facts": facts, "summary": "It is good."} for n in range(count)
    ]


def test_summaries_of_a_file_of_the_users(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.Table.from_pylist([{**row, "facts": ["1931", "3,200"]} for row in rows()]), tmp_path / "a.parquet"
    )
    train, held_out = (Summaries("d", path=str(tmp_path / "a.parquet"), split=s) for s in ("train", "held_out"))
    assert len(train) + len(held_out) == 40 and len(held_out) > 2
    assert not {task.id for task in iterate(train)} & {task.id for task in iterate(held_out)}
    task = train.at_level(9)[0]
    assert task.reference == {"facts": [{"value": "1931", "cues": []}, {"value": "3,200", "cues": []}], "max_words": 60}
    assert task.data["response"] == "It is good." and task.prompt[0].content.startswith(
        "Sum up in at most 60 words: The mill"
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"facts": ["1"]}, "line 1: needs a document"),
        ({"document": "x", "facts": "1931"}, "line 1: facts must be a list"),
        ({"document": "x", "facts": []}, "line 1: facts must be a list"),
        ({"document": "x", "facts": [{"cues": ["a"]}]}, "line 1: a fact must be a number or text"),
        ({"document": "x", "facts": [{"value": 3, "cues": "a"}]}, "line 1: cues must be a list"),
        ({"document": "x", "facts": [3], "max_words": 0}, "line 1: max_words must be a whole number"),
    ],
)
def test_rows_without_what_a_summary_needs_are_one_line(tmp_path, row, words):
    import json

    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match=words):
        Summaries("d", path=str(tmp_path / "a.jsonl"))
