"""The Python API: errors of one line, notebooks, and an interrupt that ends what it started."""

import asyncio
import signal
import threading
import traceback

import pytest

import strop
from strop.api import _result_of
from strop.core.errors import ConfigError, DataError, RewardError

ROWS = [{"prompt": f"Say {n}", "completion": f"Answer: {n}", "answer": str(n)} for n in range(20)]


def says_text(rollout, task):
    return "1.0"


def even(rollout, task):
    return float(rollout.turns[-1].completion.token_ids[0] % 2 == 0)


def ends_wrong(rollout, task):
    """A number in the evaluation of the base model, which is greedy, then text."""
    return 1.0 if rollout.turns[-1].completion.versions[0] == 0 else "text"


def call(verb, model, folder, /, **changes):
    small = {"sampling": {"max_tokens": 3}, "evaluation": {"num_tasks": 2}, "output": str(folder), "quiet": True}
    settings = {"model": str(model), "domains": {"mine": ROWS}, **small, **changes}
    if verb is strop.evaluate:
        return verb(**settings)
    stage = {"batch_size": 2} if verb is strop.sft else {"groups_per_step": 1, "group_size": 2}
    return verb(**settings, steps=1, stage=stage)


WRONG = [
    (strop.train, {"rewards": [says_text]}, RewardError),
    (strop.sft, {"rewards": [says_text]}, RewardError),
    (strop.evaluate, {"rewards": [says_text]}, RewardError),
    (strop.train, {"rewards": [ends_wrong], "algorithm": {"keep": "all"}}, RewardError),
    (strop.train, {"domains": {"mine": [{"text": 1}]}}, DataError),
    (strop.train, {"model": "no/such-model"}, DataError),
    (strop.evaluate, {"domains": {"mine": {"tasks": {"use": "generatde"}}}}, ConfigError),
]


@pytest.mark.parametrize("inside_a_loop", [False, True])
@pytest.mark.parametrize(("verb", "changes", "kind"), WRONG)
def test_what_a_user_can_mend_is_raised_in_a_few_lines(tiny_model, tmp_path, verb, changes, kind, inside_a_loop):
    async def cell():
        return call(verb, tiny_model, tmp_path, **changes)

    with pytest.raises(kind) as raised:
        asyncio.run(cell()) if inside_a_loop else call(verb, tiny_model, tmp_path, **changes)
    entries = traceback.extract_tb(raised.tb)
    own = [entry for entry in entries if "/strop/" in entry.filename]
    shown = "".join(traceback.format_exception(raised.value))
    assert len(own) <= 4 and "Group" not in shown and "another exception" not in shown, shown
    assert "\n" not in str(raised.value)


def test_every_verb_works_where_a_loop_runs_already(tiny_model, tmp_path):
    async def cell():
        report = call(strop.evaluate, tiny_model, tmp_path, rewards=[even])
        taught = call(strop.sft, tiny_model, tmp_path, rewards=[even])
        trained = call(strop.train, tiny_model, tmp_path, rewards=[even], algorithm={"keep": "all"})
        await asyncio.sleep(0)  # the notebook's own loop goes on
        return report, taught, trained

    report, taught, trained = asyncio.run(cell())
    assert (
        report.domains[0].results and set(taught.reports) == {"base", "sft"} and set(trained.reports) == {"base", "rl"}
    )


def test_an_interrupt_in_a_notebook_ends_the_run():
    ended = threading.Event()

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def cell():
        main = threading.main_thread().ident
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        _result_of(work())

    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()
    assert ended.is_set()


PAIRS = [
    {"prompt": f"Say {n}", "chosen": f"Answer: {n}", "rejected": f"Answer: {n + 1}", "margin": 1.0} for n in range(40)
]


def test_a_reward_model_from_rows_is_the_reward_of_another_run(tiny_model, tmp_path):
    small = {"output": str(tmp_path), "quiet": True, "sampling": {"max_tokens": 3}, "evaluation": {"num_tasks": 2}}
    scorer = strop.reward_model(model=str(tiny_model), pairs=PAIRS, steps=1, stage={"batch_size": 2}, **small)
    assert not scorer.reports and 0 <= scorer.pairs["reward_model"].accuracy().value <= 1
    liked = {"name": "liked", "use": "reward_model", "per": "group"}
    liked["params"] = {"path": str(scorer.folder), "stage": "reward_model"}
    trained = strop.train(
        model=str(tiny_model),
        domains={"mine": ROWS},
        rewards=[{"name": "accuracy", "use": "exact", "weight": 0.0}, liked],
        algorithm={"keep": "all"},
        steps=1,
        stage={"groups_per_step": 1, "group_size": 2},
        **small,
    )
    assert "liked" in (trained.folder / "1-rl" / "metrics.jsonl").read_text()


@pytest.mark.parametrize("domains", [None, {"mine": ROWS}])
def test_preference_training_from_rows(tiny_model, tmp_path, domains):
    small = {"output": str(tmp_path), "quiet": True, "sampling": {"max_tokens": 3}, "evaluation": {"num_tasks": 2}}
    found = strop.dpo(model=str(tiny_model), pairs=PAIRS, domains=domains, steps=1, stage={"batch_size": 2}, **small)
    assert list(found.reports) == (["base", "preference"] if domains else [])
    assert (found.model / "config.json").is_file() and "preference" in found.pairs


def test_pairs_that_are_wrong_name_the_row(tiny_model, tmp_path):
    rows = [*PAIRS[:3], {"prompt": "x", "chosen": "y"}]
    with pytest.raises(DataError, match="pair 3: no column 'rejected'"):
        strop.reward_model(model=str(tiny_model), pairs=rows, output=str(tmp_path), quiet=True)
