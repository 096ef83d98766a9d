"""Evaluation asks every model the same, counts what it cannot know, and compares in pairs."""

import asyncio
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from strop.core.errors import ConfigError, DataError
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Completion, Message, Reward, Rollout, SamplingParams, Score, Task, Turn
from strop.environments.single_turn import SingleTurn
from strop.evaluation.compare import compare, comparison_table, differences, mean_difference
from strop.evaluation.evaluate import evaluate
from strop.evaluation.report import DomainReport, EvalReport, Result
from strop.testing.fakes import ListSource


def make_domain(name: str, num_tasks: int = 10) -> Domain:
    tasks = ListSource(
        tuple(
            Task(id=f"{name}-{i}", domain=name, prompt=(Message(role="user", content=str(i)),))
            for i in range(num_tasks)
        )
    )
    return Domain(
        name=name,
        tasks=tasks,
        held_out=tasks,
        environment=SingleTurn,
        rewards=(NamedReward(name="accuracy", fn=lambda rollout, task: 1.0),),
        sampling=SamplingParams(max_tokens=8, temperature=1.0, top_k=5),
    )


def make_rollout(task: Task, index: int, score: float | None, *, form: float = 1.0, truncated: bool = False) -> Rollout:
    completion = Completion(token_ids=[1, 2, 3], logprobs=[0.0] * 3, versions=[0] * 3, finish_reason="stop")
    turn = Turn(input_ids=[1], continues=False, completion=completion, message=Message(role="assistant", content="a"))
    right = Score(value=score) if score is not None else Score(value=None, outcome="infra")
    return Rollout(
        task_id=task.id,
        index=index,
        turns=(turn,),
        status="truncated" if truncated else "ok",
        reward=Reward(scores={"accuracy": right, "form": Score(value=form)}, weights={"accuracy": 1.0, "form": 0.0}),
    )


async def test_evaluate_bounds_concurrency_and_counts_failures() -> None:
    running, most, seen = 0, 0, []

    async def attempt(domain: Domain, task: Task, index: int, params: SamplingParams) -> Rollout:
        nonlocal running, most
        running += 1
        most = max(most, running)
        seen.append((task.id, index, params.temperature, params.top_k))
        await asyncio.sleep(0.001)
        running -= 1
        number = int(task.id.split("-")[1])
        score = None if (number, index) == (0, 0) else float(number % 2 == 0)
        return make_rollout(task, index, score, form=float(number != 3), truncated=number == 1)

    report = await evaluate(
        [make_domain("sums"), make_domain("dates", 3)],
        attempt,
        model="base",
        transfer=["dates"],
        num_tasks=4,
        num_samples=2,
        ks=(1, 2),
        temperature=0.7,
        concurrency=3,
    )
    assert most == 3 and len(seen) == len(set(seen)) == 2 * (4 + 3)
    assert {(temperature, top_k) for *_, temperature, top_k in seen} == {(0.7, 0)}
    sums, dates = report.domains
    assert (sums.num_failed, len(sums.results), dates.transfer) == (1, 7, True)
    assert sums.accuracy().value == pytest.approx(0.5)
    assert sums.truncated_share() == pytest.approx(2 / 7) and sums.parsed_share() == pytest.approx(5 / 7)
    assert sums.mean_tokens() == 3.0
    assert sums.at_k(2) == (pytest.approx(1 / 3), pytest.approx(1 / 3))  # task 0 has one known sample only
    again = EvalReport.from_json(report.to_json())
    assert again == report


async def test_what_is_neither_right_nor_wrong_is_counted_apart_and_left_out() -> None:
    async def attempt(domain: Domain, task: Task, index: int, params: SamplingParams) -> Rollout:
        number = int(task.id.split("-")[1])
        rollout = make_rollout(task, index, None if number == 0 else 0.0)
        if number % 2:
            unread = Score(value=None, outcome="not_applicable")
            scores = {"accuracy": unread, "form": Score(value=1.0)}
            rollout = replace(rollout, reward=Reward(scores=scores, weights={"accuracy": 1.0, "form": 1.0}))
        return rollout

    report = await evaluate([make_domain("sums")], attempt, model="m", num_tasks=10)
    (sums,) = report.domains
    assert (len(sums.results), sums.num_failed, sums.num_skipped) == (4, 1, 5)
    assert sums.accuracy().value == 0.0 and EvalReport.from_json(report.to_json()) == report
    assert "skipped" in shown(report) and "failed" in shown(report)


async def test_evaluate_refuses_what_means_nothing() -> None:
    async def attempt(domain: Domain, task: Task, index: int, params: SamplingParams) -> Rollout:
        raise ConfigError("no such thing")

    async def run(**changed: object) -> EvalReport:
        settings = {"num_tasks": 2, "num_samples": 1, "ks": (1,), "temperature": 0.0, **changed}
        return await evaluate([make_domain("sums")], attempt, model="m", **settings)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=r"evaluation.ks holds 8: set evaluation.num_samples"):
        await run(ks=(1, 8))
    with pytest.raises(ConfigError, match=r"set evaluation.temperature"):
        await run(num_samples=4)
    with pytest.raises(ConfigError, match="no such thing"):
        await run()


def make_report(model: str, scores: dict[str, list[float]], parsed: bool | None = True, prefix: str = "") -> EvalReport:
    def results(values: list[float]) -> tuple[Result, ...]:
        return tuple(
            Result(task_id=f"{prefix}{i}", index=0, score=s, parsed=parsed, truncated=False, num_tokens=9)
            for i, s in enumerate(values)
        )

    domains = tuple(DomainReport(domain=d, transfer=d == "new", results=results(v)) for d, v in scores.items())
    return EvalReport(model=model, domains=domains, ks=(1,), seconds=1.0)


def test_verdicts_need_more_than_noise() -> None:
    before = make_report("base", {"sums": [0.0] * 30, "dates": [0.0, 1.0] * 15, "new": [1.0] * 30})
    after = make_report("rl", {"sums": [1.0] * 20 + [0.0] * 10, "dates": [1.0, 0.0] * 15, "new": [0.0] * 30})
    changes = compare(before, after)
    assert {name: c.verdict for name, c in changes.items()} == {"sums": "better", "dates": "same", "new": "worse"}
    assert changes["sums"].difference.value == pytest.approx(2 / 3)
    overall = mean_difference(before, after)
    assert overall is not None and overall.value == pytest.approx(1 / 3) and overall.low > 0
    unseen = mean_difference(before, after, transfer=True)
    assert unseen is not None and unseen.value == -1.0


def test_pairs_where_both_parse() -> None:
    def domain(rows: list[tuple[float, bool]]) -> DomainReport:
        return DomainReport(
            domain="sums",
            transfer=False,
            results=tuple(
                Result(task_id=str(i), index=0, score=s, parsed=p, truncated=False, num_tokens=1)
                for i, (s, p) in enumerate(rows)
            ),
        )

    before, after = domain([(0, False), (0, True), (1, True)]), domain([(1, True), (1, True), (1, True)])
    assert differences(before, after) == [1, 1, 0]
    assert differences(before, after, parsed_only=True) == [1, 0]


def shown(*reports: EvalReport) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(comparison_table(reports))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_table_shows_the_last_against_each_before() -> None:
    base = make_report("base", {"sums": [0.0] * 30, "new": [1.0, 0.0] * 15})
    sft = make_report("sft", {"sums": [1.0, 0.0] * 15, "new": [1.0, 0.0] * 15})
    rl = make_report("rl", {"sums": [1.0] * 30, "new": [1.0, 0.0] * 15})
    text = shown(base, sft, rl)
    row, details = (line for line in text.splitlines() if "sums" in line)
    assert "sums 0 [0, 11] 50 [33, 67] 100 [89, 100] +100.0 [+100.0, +100.0] better" in " ".join(row.split())
    assert "rl - base" in text and "rl - sft" in text and "mean (not trained on)" in text
    assert "where both parse" in text
    assert "100 / 100 / 100" in details and "9 / 9 / 9" in details
    assert " - " not in shown(rl)


def test_reports_without_a_common_task_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="share no task"):
        shown(make_report("a", {"sums": [1.0]}), make_report("b", {"sums": [1.0]}, prefix="other-"))


def test_a_domain_only_one_of_them_has() -> None:
    base, rl = make_report("base", {"sums": [0.0, 1.0]}), make_report("rl", {"sums": [1.0, 1.0], "extra": [1.0]})
    row = next(line for line in shown(base, rl).splitlines() if "extra" in line)
    assert row.split()[1] == "-"


@pytest.mark.parametrize("scores", [[0.0] * 60, [1.0] * 60], ids=["none", "all"])
def test_no_score_is_shown_as_certain_not_even_of_one_domain_alone(scores):
    report = make_report("m", {"sums": scores})
    (domain,), mean = report.domains, report.mean_accuracy()
    assert mean == domain.accuracy() and mean.high - mean.low > 0.05
    two = make_report("m", {"sums": scores, "dates": scores}).mean_accuracy()
    assert two is not None and two.high - two.low > 0.03


def test_several_samples_of_a_task_do_not_make_an_all_wrong_domain_certain():
    results = tuple(
        Result(task_id=str(n // 4), index=n % 4, score=0.0, parsed=None, truncated=False, num_tokens=1)
        for n in range(80)
    )
    accuracy = DomainReport(domain="d", transfer=False, results=results).accuracy()
    assert accuracy == make_report("m", {"d": [0.0] * 20}).domains[0].accuracy() and accuracy.high > 0.1


@pytest.mark.parametrize("scores", [[-12.0] * 20, [0.0, 3.5] * 10, [1.0] * 19 + [1.01]])
def test_a_reward_that_is_no_share_is_shown_as_it_is(scores):
    text = shown(
        make_report("base", {"sums": [0.0] * 20, "cost": scores}),
        make_report("rl", {"sums": [1.0] * 20, "cost": scores}),
    )
    sums, cost = (next(line for line in text.splitlines() if line.split()[:1] == [name]) for name in ("sums", "cost"))
    assert "100 [84, 100]" in sums and f"{sum(scores) / 20:.3g} [" in cost and "+0 [+0, +0] same" in cost
    assert "other scores as they are" in text and "other scores" not in shown(make_report("base", {"sums": [0.5]}))


def test_few_tasks_do_not_make_a_verdict():
    def change(num_tasks):
        before, after = make_report("base", {"d": [0.0] * num_tasks}), make_report("rl", {"d": [1.0] * num_tasks})
        overall = mean_difference(before, after)
        return compare(before, after)["d"].verdict, overall.low <= 0

    assert change(3) == ("same", True)
    assert change(10) == ("better", False)
