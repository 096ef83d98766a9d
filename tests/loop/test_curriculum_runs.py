"""A curriculum at work in a run of a tiny model: adaptive shares, levels, the forgetting guard, and what is shown."""

import json

import pytest
import torch
from test_resume import forget, metrics
from test_tiny_run import even, recipe, run

from strop.cli import main
from strop.core.errors import ConfigError, ForgettingError

LOST_AT = 4  # the version from which on `fades` scores nothing in one domain


def fades(rollout, task):
    """Right until version LOST_AT is reached, in the domain `sum`; half of the time in any other."""
    if task.domain != "sum":
        return even(rollout, task)
    return float(rollout.turns[-1].completion.versions[0] < LOST_AT)


def domain(name, generator="sum", **keys):
    return {"name": name, "tasks": {"use": "generated", "params": {"generator": generator, "size": 40}}, **keys}


def curriculum_recipe(model, output, *, reward=even, steps=6, curriculum=None, domains=None, **stage):
    return recipe(
        model,
        output,
        rewards=[{"name": "accuracy", "use": reward}],
        domains=domains or [domain("sum"), domain("largest", "largest", levels=True)],
        evaluation={"num_tasks": 2},
        curriculum=curriculum or {"strategy": {"use": "strop"}},
        stages=[
            {
                "stage": "rl",
                "steps": steps,
                "groups_per_step": 4,
                "group_size": 4,
                "algorithm": {"keep": "all"},
                "save": {"every_steps": 1, "keep": 9},
                **stage,
            }
        ],
    )


def state(folder, step):
    """Less the seconds, which no two runs share."""
    found = json.loads((folder / "1-rl" / "checkpoints" / f"step-{step}" / "state.json").read_text())
    for known in found["curriculum"]["domains"].values():
        del known["estimates"]["seconds"]
    return found


@pytest.mark.parametrize("staleness", [{}, {"max_staleness": 1, "max_replacements": 3}])
def test_shares_and_levels_follow_what_is_seen_and_a_resume_goes_on(tiny_model, tmp_path, capsys, staleness):
    curriculum = {
        "strategy": {"use": "strop", "params": {"temperature": 0.2}},
        "levels": {"up": 0.05, "down": 0.0, "min_rollouts": 8, "practice": 0.0},
    }
    content = curriculum_recipe(tiny_model, tmp_path, curriculum=curriculum, **staleness)
    folder = run(content)
    last = state(folder, 6)["curriculum"]
    assert sum(last["observed"].values()) >= 24
    for name in ("sum", "largest"):
        known = last["domains"][name]
        assert abs(known["wanted"] - known["realised"]) <= 1 and known["estimates"]["rollouts"] > 0
    assert last["domains"]["largest"]["level"] > 1 and last["domains"]["sum"]["level"] is None
    if not staleness:  # with two versions at work the floats of a resumed run may differ
        before, seen = metrics(folder, "1-rl"), state(folder, 6)["history"]
        assert state(folder, 6)["samples"]["num_tasks"] == sum(map(len, seen.values())) > 0
        forget(folder, "1-rl", after_step=3)
        run(content, folder)
        assert metrics(folder, "1-rl") == before and state(folder, 6)["curriculum"] == last
        assert state(folder, 6)["history"] == seen
    with pytest.raises(SystemExit) as ended:
        main(["domains", str(folder), "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    rows = {row["domain"]: row for row in shown["domains"]}
    assert (shown["step"], rows["largest"]["level"]) == (6, last["domains"]["largest"]["level"])
    assert sum(row["gradient_share"] or 0.0 for row in rows.values()) == pytest.approx(1.0)
    with pytest.raises(SystemExit):
        main(["domains", str(folder)])
    assert "largest" in capsys.readouterr().out


def test_floors_ceilings_and_groups_hold(tiny_model, tmp_path):
    domains = [
        domain("sum", parent="numbers", weight=5.0),
        domain("largest", "largest", parent="numbers"),
        domain("parity", "parity", ceiling=0.25),
    ]
    curriculum = {"groups": [{"name": "numbers", "ceiling": 0.75}]}
    folder = run(curriculum_recipe(tiny_model, tmp_path, domains=domains, curriculum=curriculum, steps=4))
    assert state(folder, 4)["curriculum"]["observed"] == {"sum": 10, "largest": 2, "parity": 4}


@pytest.fixture
def guard():
    return {"every_steps": 2, "num_tasks": 30, "num_samples": 2, "num_steps": 4}


def test_a_domain_that_is_forgotten_is_proven_noted_and_raised(tiny_model, tmp_path, caplog, guard):
    content = curriculum_recipe(tiny_model, tmp_path, reward=fades, steps=8, curriculum={"forgetting": guard})
    folder = run(content)
    events = [json.loads(line) for line in (folder / "1-rl" / "events.jsonl").read_text().splitlines()]
    assert (events[0]["domain"], events[0]["action"], events[0]["step"]) == ("sum", "raise_share", LOST_AT)
    assert events[0]["drop"] >= 0.5 and events[0]["p_corrected"] < 0.05 and {e["domain"] for e in events} == {"sum"}
    assert "'sum' is being forgotten" in caplog.text
    rounds = [state(folder, step)["curriculum"]["rounds"][-1]["shares"] for step in range(1, 9)]
    assert rounds[0] == [0.5, 0.5] and max(shares[0] for shares in rounds) == pytest.approx(2 / 3)
    shown = json.loads((folder / "1-rl" / "domains.json").read_text())
    assert next(row["guard"]["best"] for row in shown["domains"] if row["domain"] == "sum") == 1.0
    forget(folder, "1-rl", after_step=5)
    run(content, folder)
    again = [json.loads(line) for line in (folder / "1-rl" / "events.jsonl").read_text().splitlines()]
    assert again == events


def weights(folder, step):
    saved = torch.load(folder / "1-rl" / "checkpoints" / f"step-{step}" / "learner.pt", weights_only=True)
    return {name: tensor.clone() for name, tensor in saved["weights"].items()}


@pytest.mark.parametrize("max_staleness", [0, 2])
def test_a_guard_may_bring_the_best_weights_back(tiny_model, tmp_path, guard, max_staleness):
    """Rollouts in flight keep their bound: a version that brings old weights back is no update."""
    back = {"forgetting": {**guard, "actions": ["roll_back"]}}
    content = curriculum_recipe(
        tiny_model, tmp_path, reward=fades, steps=6, curriculum=back, max_staleness=max_staleness
    )
    folder = run({**content, "learner": {"learning_rate": 1e-2}})
    events = [json.loads(line) for line in (folder / "1-rl" / "events.jsonl").read_text().splitlines()]
    assert (events[0]["action"], events[0]["step"], events[0]["to_step"]) == ("roll_back", LOST_AT, 0)
    best, before, after = weights(folder, 0), weights(folder, LOST_AT - 1), weights(folder, LOST_AT)
    assert all(torch.equal(after[name], best[name]) for name in best)
    assert any(not torch.equal(before[name], best[name]) for name in best)
    versions = [state(folder, step)["step"] for step in range(7)]
    assert versions == list(range(7))  # the start is kept too, and steps go on


def test_a_guard_may_stop_the_run(tiny_model, tmp_path, guard):
    stops = {"forgetting": {**guard, "actions": ["stop"]}}
    with pytest.raises(ForgettingError, match=r"'sum' is being forgotten: 100% at its best .* stops"):
        run(curriculum_recipe(tiny_model, tmp_path, reward=fades, steps=8, curriculum=stops))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"curriculum": {"strategy": {"use": "strp"}}}, "did you mean 'strop'"),
        (
            {"curriculum": {"strategy": {"use": "ucb", "params": {"floor": 0}}}},
            "floor must be above 0, so",
        ),
        ({"curriculum": {"strategy": {"use": "ucb", "params": {"flor": 0.1}}}}, "flor"),
        ({"domains": [domain("a", floor=0.6), domain("b", "largest", floor=0.6)]}, "floor"),
        ({"domains": [domain("a", parent="nowhere"), domain("b", "largest")]}, "nowhere"),
        ({"domains": [{**domain("a"), "levels": True, "tasks": {"use": "bare_source"}}]}, "no levels"),
        ({"curriculum": {"groups": [{"name": "g"}, {"name": "g"}]}}, "two groups are named 'g'"),
    ],
)
def test_what_cannot_be_had_is_one_line(tiny_model, tmp_path, changes, message):
    content = curriculum_recipe(tiny_model, tmp_path, **changes)
    for section in content["domains"]:
        if section["tasks"]["use"] == "bare_source":
            section["tasks"] = {"use": bare_source}
    with pytest.raises(ConfigError, match=message):
        run(content)


def bare_source(domain, split):
    from strop.tasks.generated import Generated

    made = Generated("sum", domain, split=split, size=20)
    return [made[number] for number in range(len(made))]


def even_answers(rollout, task):
    """Solved where the right answer is an even number; half of the attempts elsewhere."""
    return 1.0 if int(task.reference) % 2 == 0 else even(rollout, task)


def test_solved_tasks_rest_and_a_resume_goes_on(tiny_model, tmp_path):
    tasks = {"use": "generated", "params": {"generator": "sum", "size": 12}}
    content = curriculum_recipe(
        tiny_model,
        tmp_path,
        reward=even_answers,
        domains=[{"name": "sum", "tasks": tasks}],
        curriculum={"retirement": {"clean_groups": 1, "kept_share": 0.0}},
        steps=8,
    )
    folder = run(content)
    last = state(folder, 8)
    solved = {task for task, record in last["curriculum"]["solved"]["sum"].items() if record["turns"]}
    tried = {task: record["attempts"] for task, record in last["history"]["sum"].items()}
    others = [attempts for task, attempts in tried.items() if task not in solved]
    assert solved and all(tried[task] == 4 for task in solved) and min(others) > 4
    forget(folder, "1-rl", after_step=3)
    run(content, folder)
    assert state(folder, 8) == {**last, "attempt": 1}


def mixed(rollout, task):
    """Half of the attempts of every group, so that each is worth keeping."""
    return float(rollout.index % 2)


def replay_recipe(model, output, curriculum=None, **stage):
    wanted = {"replay": {"share": 0.25, "max_replays": 1}, **(curriculum or {})}
    return curriculum_recipe(model, output, reward=mixed, curriculum=wanted, **stage)


def replayed(folder):
    rows = [json.loads(line) for line in (folder / "1-rl" / "metrics.jsonl").read_text().splitlines()]
    return [row["groups_replayed"] for row in rows]


def test_own_good_groups_are_replayed_within_their_share_and_a_resume_goes_on(tiny_model, tmp_path):
    content = replay_recipe(tiny_model, tmp_path)
    folder = run(content)
    before = metrics(folder, "1-rl")
    assert replayed(folder) == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    forget(folder, "1-rl", after_step=3)
    run(content, folder)
    assert metrics(folder, "1-rl") == before


def test_replayed_groups_change_what_is_learned(tiny_model, tmp_path):
    with_replay = run(replay_recipe(tiny_model, tmp_path / "with"))
    without = run(curriculum_recipe(tiny_model, tmp_path / "without", reward=mixed))
    one, other = (metrics(folder, "1-rl") for folder in (with_replay, without))
    assert one[0]["loss"] == other[0]["loss"] and one[1]["grad_norm"] != other[1]["grad_norm"]


def test_the_guard_replays_the_domain_that_is_forgotten_and_no_other(tiny_model, tmp_path, guard):
    def half(rollout, task):
        """`fades`, with a failure beside every success."""
        return fades(rollout, task) * (rollout.index % 2)

    curriculum = {"replay": {"share": 0.25}, "forgetting": {**guard, "actions": ["replay"], "num_tasks": 40}}
    content = curriculum_recipe(tiny_model, tmp_path, reward=half, steps=8, curriculum=curriculum)
    folder = run({**content, "evaluation": {"num_tasks": 2}})
    events = [json.loads(line) for line in (folder / "1-rl" / "events.jsonl").read_text().splitlines()]
    assert {(e["domain"], e["action"]) for e in events} == {("sum", "replay")}
    first = events[0]["step"]
    assert replayed(folder)[:first] == [0.0] * first and sum(replayed(folder)[first:]) > 0


@pytest.mark.parametrize("algorithm", [{"preset": "rloo"}, {"geometric_mask": True}])
def test_replay_needs_a_loss_that_weighs_by_age(tiny_model, tmp_path, algorithm):
    with pytest.raises(ConfigError, match=r"curriculum.replay"):
        run(replay_recipe(tiny_model, tmp_path, algorithm={"keep": "all", **algorithm}))


def test_the_guard_cannot_replay_what_nobody_keeps(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match=r"\[curriculum.replay\]"):
        run(curriculum_recipe(tiny_model, tmp_path, curriculum={"forgetting": {"actions": ["replay"]}}))
