import pytest
from code_making import ScriptedGrader, said, task_with, verdict

from strop.core.errors import DataError, RewardError
from strop.core.programs import CaseVerdict
from strop.rewards.code import CodeReward, HasCode

PROBLEM = {"entry_point": "f", "cases": [{"args": [1], "expected": 2}, {"args": [2], "expected": 3}]}
TASK = task_with(PROBLEM)
FAILURES = [
    "wrong_answer", "no_answer", "runtime_error", "time_limit", "memory_limit", "output_limit", "process_limit",
    "compile_error",
]  # fmt: skip


def reward(*verdicts, **options):
    return CodeReward(ScriptedGrader({"answer": list(verdicts), **options.pop("script", {})}), **options)


async def test_passed_is_one_and_the_whole_answer_is_graded():
    made = reward(verdict())
    score = await made(said("answer"), TASK)
    assert (score.value, score.outcome) == (1.0, "scored")
    [(problem, source, response)] = made.grader.asked
    assert (problem.cases[1].expected, source, response) == (3, "answer", True)


@pytest.mark.parametrize("name", FAILURES)
async def test_what_the_program_does_is_scored(name):
    for mode, value in (("all", 0.0), ("fraction", 0.5)):
        score = await reward(verdict(name, passed=1), score=mode)(said("answer"), TASK)
        assert (score.value, score.outcome) == (value, "scored")
        assert score.detail == f"{name}, 1 of 2; case 0: {name} got 3"


async def test_a_failure_of_the_sandbox_is_never_a_zero():
    score = await reward(verdict("infra_error", passed=0, detail="no zygote"))(said("answer"), TASK)
    assert (score.value, score.outcome, score.detail) == (None, "infra", "no zygote")


async def test_a_weak_verdict_says_so():
    assert "weak" in (await reward(verdict(trust="weak"))(said("answer"), TASK)).detail


@pytest.mark.parametrize("reference", [None, 3, "{}", {"cases": []}, {"entry_point": "f", "casses": []}])
async def test_a_reference_that_is_no_problem_ends_the_run(reference):
    with pytest.raises(RewardError, match="task t: the reference is no coding problem"):
        await reward(verdict())(said("answer"), task_with(reference))


async def test_a_problem_that_grades_nothing_ends_the_run():
    class Refusing:
        async def grade(self, problem, source, *, response=False, every_case=False):
            raise DataError("the tests hold no test")

    with pytest.raises(RewardError, match="task t: its problem grades nothing: the tests hold no test"):
        await CodeReward(Refusing())(said("answer"), TASK)


@pytest.mark.parametrize("options", [{"score": "some"}, {"runs": 0}, {"time_weight": -1.0}])
def test_parameters_are_checked(options):
    with pytest.raises(ValueError, match="must be"):
        reward(verdict(), **options)


def measured(own, reference, **options):
    return reward(*own, script={"reference": reference}, **options), task_with(PROBLEM, reference_solution="reference")


async def test_speed_is_the_median_against_the_reference():
    own = [verdict(cpu_s=9.0), verdict(cpu_s=0.1), verdict(cpu_s=0.1)]
    made, task = measured(own, [verdict(cpu_s=0.3)], time_weight=0.2)
    score = await made(said("answer"), task)
    assert score.value == pytest.approx(1.0 + 0.2 * 0.75)
    assert [source for _, source, _ in made.grader.asked].count("reference") == 3
    assert [source for _, source, _ in made.grader.asked].count("answer") == 3


async def test_memory_is_the_largest_case_and_may_be_scored_alone():
    made, task = measured(
        [verdict(memory=30 << 20)], [verdict(memory=10 << 20)], memory_weight=1.0, correctness_weight=0.0, runs=1
    )
    assert (await made(said("answer"), task)).value == pytest.approx(0.25)


async def test_a_short_time_is_no_advantage():
    made, task = measured([verdict(cpu_s=1e-6)], [verdict(cpu_s=1e-4)], time_weight=1.0)
    assert (await made(said("answer"), task)).value == pytest.approx(1.5)


async def test_wrong_answers_are_not_measured():
    for mode, value in (("all", 0.0), ("fraction", 0.5)):
        made, task = measured([verdict("wrong_answer", passed=1)], [verdict()], time_weight=1.0, score=mode)
        assert (await made(said("answer"), task)).value == value
        assert len(made.grader.asked) == 1


async def test_an_answer_that_passes_only_sometimes_earns_nothing():
    made, task = measured([verdict(), verdict(), verdict("time_limit", passed=1)], [verdict()], time_weight=0.1)
    score = await made(said("answer"), task)
    assert score.value == 0.0 and score.detail.startswith("passed once, then time_limit")


async def test_infra_while_measuring_leaves_the_score_unknown():
    made, task = measured([verdict()], [verdict(), verdict("infra_error", passed=0)], time_weight=0.1)
    assert (await made(said("answer"), task)).outcome == "infra"


async def test_a_reference_solution_must_be_there_and_pass():
    with pytest.raises(RewardError, match="no reference_solution"):
        await reward(verdict(), time_weight=0.1)(said("answer"), TASK)
    made, task = measured([verdict()], [verdict("wrong_answer", passed=1)], time_weight=0.1)
    with pytest.raises(RewardError, match="its reference_solution does not pass: wrong_answer, 1 of 2"):
        await made(said("answer"), task)


async def test_details_are_one_short_line():
    case = CaseVerdict(name="case 0", verdict="runtime_error", detail="Traceback\n" * 100)
    detail = (await reward(verdict("runtime_error", passed=0, cases=(case,)))(said("answer"), TASK)).detail
    assert "\n" not in detail and len(detail) < 300


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```python\ndef f(x): return x\n```", 1.0),
        ("Here:\n```\nx = 1\n```\nDone.", 1.0),
        ("```python\ndef f(x: return x\n```", 0.0),
        ("```python\n# nothing\n```", 0.0),
        ("```python\ndef f(x): return x", 0.0),
        ("def f(x): return x", 0.0),
        ("```python\n" + "(" * 5000 + "\n```", 0.0),
        ("", 0.0),
    ],
)
def test_has_code_is_about_the_form_alone(text, value):
    assert HasCode()(said(text), TASK) == value
