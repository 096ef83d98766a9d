"""A grader and a sandbox that answer by script, for tests of what uses them."""

from dataclasses import dataclass, field

from making import completion

from strop.core.programs import Answer, CallExecution, CaseVerdict, Execution, Problem, Verdict
from strop.core.types import Message, Rollout, Task, Turn


def verdict(name="passed", passed=2, total=2, cases=None, cpu_s=0.1, memory=10 << 20, **options):
    if cases is None:
        used = {"cpu_s": cpu_s, "peak_memory_bytes": memory}
        cases = [CaseVerdict(name=f"case {n}", verdict="passed", **used) for n in range(total)]
        cases = cases if name == "passed" else [CaseVerdict(name="case 0", verdict=name, detail="got 3")]
    return Verdict(verdict=name, passed=passed, total=total, cases=tuple(cases), tier="full", **options)


@dataclass
class ScriptedGrader:
    """Gives the verdicts of a source in order, the last one for ever; remembers what it was asked."""

    script: dict[str, list[Verdict]]
    asked: list[tuple[Problem, str, bool]] = field(default_factory=list)

    async def grade(self, problem, source, *, response=False, every_case=False):
        self.asked.append((problem, source, response))
        known = self.script[source]
        return known.pop(0) if len(known) > 1 else known[0]


@dataclass
class ScriptedSandbox:
    """Runs `functions[entry_point](**kwargs)` here; for tests, whose functions are their own."""

    functions: dict
    status: str = "ok"
    asked: list = field(default_factory=list)

    async def call(self, program, entry_point, calls, limits):
        self.asked.append((program, entry_point, limits))
        execution = Execution(status=self.status, tier="full")
        if self.status != "ok":
            return CallExecution(execution=execution)
        answers = []
        for call in calls:
            try:
                answers.append(Answer(kind="value", value=self.functions[entry_point](*call.args, **call.kwargs)))
            except TypeError as error:
                answers.append(Answer(kind="error", detail=str(error)))
        return CallExecution(execution=execution, answers=tuple(answers))


def said(content, calls=()):
    message = Message(role="assistant", content=content, tool_calls=tuple(calls))
    turn = Turn(input_ids=[1], continues=False, completion=completion([5]), message=message)
    return Rollout(task_id="t", index=0, turns=(turn,), status="ok")


def task_with(reference=None, **data):
    return Task(id="t", domain="d", prompt=(Message(role="user", content="q"),), reference=reference, data=data)
