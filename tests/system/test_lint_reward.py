"""The lint reward in a real sandbox: ruff; ESLint where it is installed, else a stand-in that answers as it does."""

import asyncio
import shutil
from pathlib import Path

import pytest

from strop.config.resolve import REWARDS, make_callable
from strop.config.schema import RewardConfig
from strop.core.errors import ConfigError, RewardError
from strop.core.programs import Execution
from strop.core.types import Completion, Message, Rollout, Task, Turn
from strop.rewards.lint import LintReward
from strop.sandbox.jail import LocalSandbox, SandboxSettings
from strop.sandbox.languages import Language
from strop.testing.sandbox import FakeSandbox

TASK = Task(id="t7", domain="d", prompt=(Message(role="user", content="q"),))
MODULES = Path(__file__).parents[1] / "cases" / "modules"
REAL = [f"{place}/node_modules" for place in ("/usr/local/lib", "/usr/lib")]


def said(text):
    completion = Completion(token_ids=[1], logprobs=[0.0], versions=[0], finish_reason="stop")
    message = Message(role="assistant", content=text)
    turn = Turn(input_ids=[1], continues=False, completion=completion, message=message)
    return Rollout(task_id="t7", index=0, turns=(turn,), status="ok")


def fenced(code, tag="python"):
    return said(f"Here it is:\n\n```{tag}\n{code}```\n")


@pytest.fixture(scope="module")
def sandbox():
    shown = Language(name="eslint", source="none.js", run=("node", "none.js"), mounts=(str(MODULES),))
    made = LocalSandbox(SandboxSettings(packages=("ruff",), languages=(shown,)))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture
def config(tmp_path):
    def write(text, name="ruff.toml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


SELECT = 'lint.select = ["F401", "E711", "N802", "D103"]\n'
CODE = 'def double(n):\n    """Twice n."""\n    return 2 * n\n'

ANSWERS = [  # code, findings, lines on which code begins, rules in the detail
    (CODE, 0, 3, ""),
    ("import os\n" + CODE, 1, 4, "F401 ×1"),
    ("import os, sys\n" + CODE, 2, 4, "F401 ×2"),
    ("import os\n" + CODE.replace("double", "Double"), 2, 4, "F401 ×1, N802 ×1"),
    ("# ruff: noqa\nimport os  # noqa: F401\n" + CODE, 1, 4, "F401 ×1"),
    ("import os\n" + "# a comment\n\n" * 50 + CODE, 1, 4, "F401 ×1"),
    ("import os\n'''" + "a long string\n" * 50 + "'''\n" + CODE, 1, 5, "F401 ×1"),
    ("def f(x):\n    return x == None\n", 2, 2, "D103 ×1, E711 ×1"),
    ("x = 1\r\ny = '\\ud800'\r\n", 0, 2, ""),
]


@pytest.mark.parametrize(("code", "findings", "lines", "cited"), ANSWERS)
async def test_ruff_under_a_companys_rules_by_count_per_line(sandbox, config, code, findings, lines, cited):
    score = await LintReward(sandbox, config=config(SELECT))(fenced(code), TASK)
    assert score.detail == f"{findings} findings in {lines} lines" + (f": {cited}" if cited else "")
    assert score.value == pytest.approx(1 / (1 + 10 * findings / lines))
    every_two = await LintReward(sandbox, config=config(SELECT), per_lines=2)(fenced(code), TASK)
    assert every_two.value == pytest.approx(1 / (1 + 2 * findings / lines))


async def test_a_project_file_counts_too_and_without_one_ruffs_own_rules(sandbox, config):
    project = config('[tool.ruff.lint]\nselect = ["N802"]\n', "pyproject.toml")
    code = fenced("import os\n" + CODE)
    assert (await LintReward(sandbox, config=project)(code, TASK)).value == 1.0
    assert "F401 ×1" in (await LintReward(sandbox)(code, TASK)).detail


@pytest.mark.parametrize("text", ["I cannot.", "", "```python\n```", "```python\n# nothing\n\n```", "<think>```x```"])
async def test_without_a_program_there_is_nothing_to_pay(sandbox, text):
    score = await LintReward(sandbox)(said(text), TASK)
    assert (score.value, score.detail, score.outcome) == (0.0, "no program", "scored")


@pytest.mark.parametrize("code", ["def f(:\n", "x = (\n", "print 'two'\n", "\x00\n", "if x:\npass\n"])
async def test_what_does_not_parse_scores_zero(sandbox, code):
    score = await LintReward(sandbox)(fenced(code), TASK)
    assert score.value == 0.0 and score.detail.startswith("does not parse: ")


async def test_the_program_is_never_run(sandbox):
    code = "while True:\n    pass\n"
    assert (await LintReward(sandbox)(fenced(code), TASK)).value == 1.0


@pytest.mark.parametrize(
    ("text", "said_of_it"),
    [("nonsense = 3\n", "nonsense"), ('extend = "../base.toml"\n', "base.toml"), ("x = [", "ruff.toml")],
)
async def test_a_configuration_that_cannot_be_used_ends_the_run_with_the_task(sandbox, config, text, said_of_it):
    with pytest.raises(RewardError, match=f"ruff with config = .*cannot be run, task t7: .*{said_of_it}") as told:
        await LintReward(sandbox, config=config(text))(fenced(CODE), TASK)
    assert "\n" not in str(told.value)


async def test_a_sandbox_that_does_not_show_the_linter_says_how_it_would():
    async with LocalSandbox(SandboxSettings()) as bare:
        with pytest.raises(RewardError, match=r'shows no ruff: .*packages = \["ruff"\]'):
            await LintReward(bare)(fenced(CODE), TASK)


@pytest.mark.parametrize(("status", "outcome"), [("time_limit", "timeout"), ("memory_limit", "crash")])
async def test_an_answer_on_which_alone_the_linter_fails_scores_zero(status, outcome):
    def script(what, program):
        if program.files["answer.py"]:
            return Execution(status=status, tier="unsafe", stderr=b"ruff crashed")
        return Execution(status="ok", tier="unsafe", stdout=b'{"lines": 0, "broken": null, "rules": {}}')

    score = await LintReward(FakeSandbox(script=script))(fenced(CODE), TASK)
    assert (score.value, score.outcome) == (0.0, outcome) and "ruff crashed" in score.detail


@pytest.mark.parametrize("on_canary", [False, True])
async def test_a_fault_of_the_sandbox_is_no_score(on_canary):
    def script(what, program):
        status = "runtime_error" if on_canary and program.files["answer.py"] else "infra_error"
        return Execution(status=status, tier="unsafe", detail="the jail broke")

    score = await LintReward(FakeSandbox(script=script))(fenced(CODE), TASK)
    assert (score.value, score.outcome, score.detail) == (None, "infra", "the jail broke")


ESLINT = "export default { limit: 20 };\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
class TestEslint:
    """The stand-in has one rule, no-var, and reads the configuration as a module."""

    def made(self, sandbox, config, text=ESLINT):
        path = config(text, "eslint.config.mjs")
        return LintReward(sandbox, linter="eslint", config=path, modules=str(MODULES))

    async def test_findings_lines_and_what_does_not_parse(self, sandbox, config):
        reward = self.made(sandbox, config)
        score = await reward(fenced("/* long\n\n comment */\nvar x = 1;\n// more\nlet y = 2;\n", "js"), TASK)
        assert score.detail == "1 findings in 2 lines: no-var ×1" and score.value == pytest.approx(1 / 6)
        assert (await reward(fenced("let y = 2;\n", "js"), TASK)).value == 1.0
        broken = await reward(fenced("function (\n", "js"), TASK)
        assert broken.value == 0.0 and "does not parse: Parsing error" in broken.detail

    async def test_an_answer_that_alone_breaks_it_scores_zero_and_a_broken_configuration_ends_the_run(
        self, sandbox, config
    ):
        score = await self.made(sandbox, config)(fenced("crash();\n", "js"), TASK)
        assert (score.value, score.outcome) == (0.0, "crash") and "no-var cannot go on" in score.detail
        with pytest.raises(RewardError, match=r"eslint with config .*task t7"):
            await self.made(sandbox, config, "export default {")(fenced("let y = 2;\n", "js"), TASK)

    async def test_absent_it_says_how_to_get_it(self, sandbox, config):
        if any(Path(place, "eslint").exists() for place in REAL):
            pytest.skip("ESLint is installed")
        path = config(ESLINT, "eslint.config.mjs")
        with pytest.raises(RewardError, match="shows no eslint: npm install -g eslint"):
            await LintReward(sandbox, linter="eslint", config=path)(fenced("let y = 2;\n", "js"), TASK)

    async def test_the_real_one(self, sandbox, config):
        if not any(Path(place, "eslint").exists() for place in REAL):
            pytest.skip("ESLint is not installed")
        rules = 'export default [{ rules: { "no-var": "error", semi: "error" } }];\n'
        reward = LintReward(sandbox, linter="eslint", config=config(rules, "eslint.config.mjs"))
        score = await reward(fenced("/* eslint-disable */\nvar x = 1\nexport default x;\n", "js"), TASK)
        assert score.detail == "2 findings in 2 lines: no-var ×1, semi ×1"


BAD = [
    ({"linter": "pylint"}, "linter must be 'ruff' or 'eslint', got 'pylint'"),
    ({"linter": "eslint"}, "give config, such as eslint.config.mjs"),
    ({"per_lines": 0}, "per_lines must be a number above 0"),
    ({"config": "nowhere/ruff.toml"}, "config = 'nowhere/ruff.toml' cannot be read"),
    ({"confg": "ruff.toml"}, "did you mean 'config'"),
]


@pytest.mark.parametrize(("params", "told"), BAD)
def test_parameters_that_cannot_be_are_one_line(params, told):
    config = RewardConfig(name="lint", use="lint", params=params)
    with pytest.raises(ConfigError, match=told):
        make_callable(config, REWARDS, "domain 'd', reward 'lint'", sandbox=FakeSandbox())
