"""Bad input: one clear line that says what to change, exit code 2, never a traceback."""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from strop.cli import main

RECIPE = """
name = "bad"
output = "{output}"
[model]
path = "{model}"
[sampling]
max_tokens = 4
[evaluation]
num_tasks = 1
[[rewards]]
name = "accuracy"
use = "exact"
[[domains]]
name = "sum"
tasks = {{ use = "generated", params = {{ generator = "sum", size = 8 }} }}
[[stages]]
stage = "rl"
steps = 1
groups_per_step = 1
group_size = 2
"""

REWARDS = """
def text(rollout, task):
    return "1.0"

def nan(rollout, task):
    return float("nan")

def silent(rollout, task):
    return None

def broken(rollout, task):
    raise KeyError("answer")

def strict(rollout, task, level: int = 0):
    return 1.0

def alone(rollout):
    return 1.0

def three(rollout, task, more):
    return 1.0

class Made:
    def __call__(self, rollout):
        return 1.0

def nothing(domain, split):
    return []
"""

# what is changed (a recipe override, or text replaced in the recipe), and what the line must say
OVERRIDES = [
    ("learner.learning-rate=1e-6", ["learner.learning-rate", "learning_rate"]),
    ("num_epoch=3", ["unknown key 'num_epoch'"]),
    ("engine.learning_rate=1", ["engine.learning_rate", "known keys"]),
    ("learner.lr=1", ["unknown key 'learner.lr'"]),
    ("learner.learning_rate=fast", ["learner.learning_rate", "number"]),
    ("learner.learning_rate=-1", ["learner.learning_rate", "greater than 0"]),
    ("sampling.top_p=1.5", ["sampling.top_p", "less than or equal to 1"]),
    ("stages.rl.steps=0", ["stages.0.steps", "greater than 0"]),
    ("stages.rl.group_size=1", ["group_size", "at least 2", "ppo"]),
    ("stages.none.steps=1", ["no item 'none'"]),
    ("a..b=1", ["key.path=value"]),
    (".a=1", ["key.path=value"]),
    ("seed=", ["key.path=value"]),
    ("seed.x", ["key.path=value"]),
    ("name.x=1", ["override"]),
    ("stages.rl.algorithm.preset=grop", ["preset", "did you mean 'grpo'"]),
    ("stages.rl.algorithm.loss=ppo", ["algorithm.loss", "did you mean"]),
    ("stages.rl.domains=['nope']", ["no domain is named 'nope'"]),
    ("domains.sum.tasks.use=generate", ["did you mean 'generated'"]),
    ("domains.sum.tasks.params.generator=summ", ["did you mean 'sum'"]),
    ("domains.sum.tasks.params.levle=2", ["unknown parameter 'levle'", "level"]),
    ("domains.sum.tasks.params.level=9", ["level must be from 1 to 5"]),
    ("domains.sum.weight=0", ["weight 0"]),
    ("domains.sum.signal=right", ["signal = 'right'", "accuracy"]),
    ("domains.sum.environment.use=single", ["did you mean 'single_turn'"]),
    ("rewards.accuracy.use=no_such_module:fn", ["cannot import 'no_such_module'"]),
    ("rewards.accuracy.params.strict=true", ["reward 'accuracy'", "unknown parameter 'strict'"]),
    ("rewards.accuracy.use=bad_rewards:__name__", ["reward 'accuracy'", "not a function"]),
    ("rewards.accuracy.use=bad_rewards:missing", ["has no 'missing'"]),
    ("rewards.accuracy.use=bad_rewards:text", ["reward 'accuracy'", "str '1.0'", "number"]),
    ("rewards.accuracy.use=bad_rewards:nan", ["reward 'accuracy'", "nan", "finite"]),
    ("rewards.accuracy.use=bad_rewards:broken", ["'sum'", "reward 'accuracy'", "KeyError", "bad_rewards.py, line"]),
    ("rewards.accuracy.use=bad_rewards:silent", ["'sum'", "none of its 1", "reward 'accuracy' does not apply"]),
    ("rewards.accuracy.weight=0", ["every reward has weight 0"]),
    ("rewards.accuracy.gate=form", ["gated by 'form'"]),
    ("domains.sum.tasks={use = 'bad_rewards:nothing'}", ["no task"]),
    ("model.path=no/such-model", ["no/such-model", "model folder"]),
    ("model.max_context=100000", ["max_context is 100000"]),
    ("model.max_context=20", ["domain sum, task", "context 20"]),
    ("engine.device=tpuu", ["engine.device = 'tpuu'"]),
    ("learner.device=meta", ["learner.device = 'meta'"]),
    ("engine.device=meta", ["engine.device = 'meta'"]),
    ("engine.max_rows=1000000000", ["the engine stopped", "engine.max_rows"]),
    ("stages.rl.domains=[]", ["stage 'rl'", "no domain"]),
    ("domains.sum.transfer=true", ["stage 'rl'", "no domain"]),
    ("sampling.temperature=0", ["temperature 0", "repeats one answer"]),
    ("sampling.top_k=1", ["top_k 1", "repeats one answer"]),
    ("model.chat_template='none of it'", ["chat template", "leaves out"]),
    ("stages=[{stage='sft', steps=9, batch_size=2, learner={learning_rate=1e30}}]", ["in a row", "learning_rate"]),
    ("learner.learning_rate=inf", ["learner.learning_rate", "finite number"]),
    ("rewards.accuracy.weight=nan", ["rewards.0.weight", "finite number"]),
    ("stages.rl.algorithm.kl_coef=inf", ["kl_coef", "finite number"]),
    ("sampling.temperature=inf", ["sampling.temperature", "finite number"]),
    ("sampling.temperature=1e-45", ["sampling.temperature", "at least 0.001"]),
    ("evaluation.temperature=1e-45", ["evaluation.temperature", "at least 0.001"]),
    ("stages.rl.steps=true", ["stages.0.steps", "number", "True"]),
    ("stages.rl.steps='2'", ["stages.0.steps", "number", "'2'"]),
    ("model.max_context='2000'", ["model.max_context", "number"]),
    ("model.max_context=1", ["model.max_context", "greater than 1"]),
    ("engine.threads=1000000", ["engine.threads", "1024"]),
    ("sampling.stop=['']", ["sampling.stop", "empty text"]),
    ("evaluation.ks=[]", ["evaluation.ks", "at least 1 item"]),
    ("evaluation.ks=[0]", ["evaluation.ks", "at least 1 each"]),
    ("name='../x'", ["name", "without slashes"]),
    ("name=''", ["name", "short text"]),
    ("name='" + "x" * 300 + "'", ["name", "short text"]),
    ("stages.rl.name='a/b'", ["stages.0.name", "without slashes"]),
    ("stages.rl.name=base", ["stages.0.name", "choose another"]),
    ("stages.rl.name=rl-step-2", ["stages.0.name", "choose another"]),
    ("domains.sum.name=''", ["domains.0.name", "at least 1 character"]),
    ("sampling.stop.first.x=1", ["sampling.stop"]),
    ("rewards.accuracy.gate=accuracy", ["rewards", "'accuracy' is gated by 'accuracy'"]),
    (
        "domains.sum.rewards=[{name='a',use='exact',gate='b'},{name='b',use='exact',gate='c'},{name='c',use='exact',gate='b'}]",
        ["domains.0.rewards", "'b' is gated by 'c' is gated by 'b'"],
    ),
    ("stages.rl.batch_size=32", ["stages.0", "'batch_size' is a key of sft"]),
    ("stages.rl.data={use='files'}", ["stages.0", "'data' is a key of sft"]),
    *(
        (f"stages=[{{stage='sft', steps=1, {key}={value}}}]", ["stages.0", f"{key!r} is a key of rl stages"])
        for key, value in [
            ("groups_per_step", 8),
            ("group_size", 2),
            ("max_staleness", 0),
            ("max_replacements", 1),
            ("deadline_s", 1.0),
            ("max_infra_share", 0.5),
            ("algorithm", "{}"),
            ("sampling", "{}"),
        ]
    ),
    *(
        (
            "stages=[{stage='sft', steps=1, learner={lora={}}}, {stage='rl', steps=1, learner={lora={KEY}}}]".replace(
                "KEY", key
            ),
            ["stage 'rl'", "adapter of 'sft'", f"lora.{key.split('=')[0]}"],
        )
        for key in ("rank=4", "alpha=1.0", "dropout=0.5", "target_modules=['q_proj']")
    ),
    ("domains.sum.tasks.params.size=1.5", ["domain 'sum'", "size must be a whole number, got 1.5"]),
    ("domains.sum.tasks.params.size=x", ["domain 'sum'", "size must be a whole number, got 'x'"]),
    ("domains.sum.tasks.params.size=true", ["size must be a whole number, got True"]),
    ("domains.sum.tasks.params.seed=x", ["seed must be a whole number, got 'x'"]),
    ("domains.sum.tasks.params.generator=3", ["generator must be text, got 3"]),
    ("domains.sum.held_out={use='generated', params={generator='sum', size='x'}}", ["size must be a whole number"]),
    ("domains.sum.environment={use='guess_number', params={max_guesses=[]}}", ["max_guesses must be a whole number"]),
    ("rewards=[{name='accuracy', use='soft_overlong', params={max_tokens='x'}}]", ["max_tokens must be a"]),
    ("rewards=[{name='accuracy', use='bad_rewards:strict', params={level='x'}}]", ["level must be a whole"]),
    ("rewards.accuracy.use=bad_rewards:alone", ["reward 'accuracy'", "function of (rollout, task)", "too many"]),
    ("rewards.accuracy.use=bad_rewards:three", ["reward 'accuracy'", "function of (rollout, task)", "missing"]),
    ("rewards.accuracy.use=bad_rewards:Made", ["reward 'accuracy'", "function of (rollout, task)"]),
    ("rewards.accuracy.use=builtins:max", ["reward 'accuracy'", "TypeError"]),
    ("rewards.accuracy.use=builtins:int", ["reward 'accuracy'", "function of (rollout, task)", "not a callable"]),
    ("rewards=[{name='accuracy', use='bad_rewards:alone', per='group'}]", ["function of (rollouts, task)"]),
    *(
        (f"stages.rl.algorithm.{key}=bad_rewards:{name}", [f"algorithm.{key}", f"function of ({arguments})"])
        for key, name, arguments in [
            ("loss", "three", "inputs"),
            ("advantage", "alone", "groups, outputs, scale"),
            ("advantage", "nan", "groups, outputs, scale"),
        ]
    ),
    ("output=run.toml", ["run.toml", "check the path"]),
    ("output=/proc/nowhere", ["/proc/nowhere", "check the path"]),
    ("model.path=.", ["no tokenizer that transformers loads"]),
]


@dataclass
class Done:
    returncode: int
    stderr: str


@pytest.fixture()
def strop(place, capsys, monkeypatch):
    """The command line, run in this process from the folder `place`."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)

    def call(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        sys.modules.pop("bad_rewards", None)
        return Done(int(ended.value.code or 0), capsys.readouterr().err)

    return call


def assert_one_line(done: Done, said: list[str]) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("strop: ")]
    assert len(lines) == 1, done.stderr
    for part in said:
        assert part in lines[0]


@pytest.fixture()
def place(tiny_model, tmp_path):
    (tmp_path / "run.toml").write_text(RECIPE.format(model=tiny_model, output=tmp_path / "runs"))
    (tmp_path / "bad_rewards.py").write_text(REWARDS)
    return tmp_path


@pytest.mark.parametrize(("override", "said"), OVERRIDES, ids=[override for override, _ in OVERRIDES])
def test_a_bad_recipe_is_one_line_and_exit_code_2(strop, place, override, said):
    assert_one_line(strop("train", "run.toml", override, "--quiet"), said)
    for folder in place.glob("runs/*"):
        assert (folder / "evaluations" / "base.json").is_file(), "a run folder with nothing in it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", ["not valid TOML"]),
        ("a = " + "[" * 5000 + "]" * 5000, ["not valid TOML"]),
        ("a = 1\na = 2", ["not valid TOML", "overwrite"]),
        ("", ["'name' is missing"]),
        (RECIPE.replace('[[domains]]\nname = "sum"', '[[domains]]\nname = "sum"\ncolour = 1'), ["domains.0.colour"]),
        (RECIPE + '[[stages]]\nstage = "rl"\nsteps = 1\n', ["two stages are named 'rl'"]),
        (RECIPE + '[[stages]]\nstage = "ppo"\nsteps = 1\n', ["stages.1.stage", "'sft'"]),
    ],
)
def test_a_recipe_that_cannot_be_read(strop, place, tiny_model, text, said):
    (place / "run.toml").write_text(_filled(text, tiny_model, place))
    assert_one_line(strop("train", "run.toml", "--quiet"), said)


def _filled(text: str, model: Path, place: Path) -> str:
    return text.format(model=model, output=place / "runs") if "{model}" in text else text


def test_missing_files_and_folders(strop):
    assert_one_line(strop("train", "nowhere"), ["no recipe at nowhere"])
    assert_one_line(strop("train", "run.toml", "--resume", "nowhere"), ["nowhere", "not a run folder"])
    assert_one_line(strop("compare", "a.json", "b.json"), ["a.json"])
    assert_one_line(strop("rollouts", "nowhere"), ["holds no rollouts"])
    assert_one_line(strop("export", "nowhere", "there"), ["nowhere", "no model"])
    assert_one_line(strop("init", "nowhere.jsonl"), ["nowhere.jsonl", "no such file"])


def test_a_model_without_a_chat_template(strop, place, tiny_model):
    bare = place / "bare"
    shutil.copytree(tiny_model, bare)
    (bare / "chat_template.jinja").unlink()
    assert_one_line(strop("train", "run.toml", f"model.path={bare}", "--quiet"), ["no chat template", "chat_template"])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", ["holds no row"]),
        ("{not json}\n", ["line 1", "not valid JSON"]),
        ("[1]\n", ["line 1", "one JSON object"]),
        ('{"prompt": ' + "[" * 100_000 + "]" * 100_000 + "}\n", ["line 1", "not valid JSON"]),
        ('{"text": "a"}\n', ["line 1", "there are text"]),
        ('{"prompt": "", "answer": "1"}\n', ["line 1", "not empty"]),
        ('{"prompt": [{"content": "x"}], "answer": "1"}\n', ["line 1", "role and content"]),
    ],
)
def test_data_that_cannot_be_read(strop, place, rows, said):
    (place / "rows.jsonl").write_text(rows)
    assert_one_line(strop("init", "rows.jsonl"), ["rows.jsonl", *said])


def test_init_writes_a_recipe_that_loads_and_names_the_data(strop, place):
    rows = [json.dumps({"prompt": f"Say {n}", "answer": str(n)}) for n in range(40)]
    (place / "rows.jsonl").write_text("\n".join(rows))
    done = strop("init", "rows.jsonl", "--folder", "mine")
    assert done.returncode == 0, done.stderr
    recipe = tomllib.loads((place / "mine" / "run.toml").read_text())
    assert recipe["domains"][0]["tasks"]["params"]["path"] == str(place / "rows.jsonl")
    assert strop("train", "mine", "--dry-run").returncode == 0
    assert_one_line(strop("init", "rows.jsonl", "--folder", "mine"), ["exists"])


def test_init_quotes_what_it_is_given(strop, place):
    rows = [json.dumps({'the "prompt"': f"Say {n}", "right": str(n)}) for n in range(40)]
    data = place / 'my "ünï" rows.jsonl'
    data.write_text("\n".join(rows))
    done = strop("init", str(data), "--folder", 'my "own"', "--prompt", 'the "prompt"', "--reference", "right")
    assert done.returncode == 0, done.stderr
    recipe = tomllib.loads((place / 'my "own"' / "run.toml").read_text())
    assert recipe["name"] == 'my "own"'
    assert recipe["domains"][0]["tasks"]["params"] == {
        "path": str(data),
        "prompt": 'the "prompt"',
        "reference": "right",
        "held_out_share": 0.3,
    }
    given = ("--prompt", 'the "prompt"', "--reference", "right")
    assert_one_line(strop("init", str(data), *given, "--folder", "run.toml"), ["run.toml"])


def test_an_override_below_a_list_of_plain_values(strop, place):
    (place / "run.toml").write_text('domains = ["sum"]')
    assert_one_line(strop("train", "run.toml", "domains.sum.weight=2"), ["'sum' is below a plain value"])


@pytest.mark.parametrize("folder", [".", 'odd "name"', "mine"])
def test_init_writes_a_recipe_that_loads_wherever_it_goes(strop, place, folder):
    (place / "run.toml").unlink()
    rows = [json.dumps({"prompt": f"Say {n}", "text": "a"}) for n in range(30)]
    (place / "few rows.jsonl").write_text("\n".join(rows))
    assert_one_line(strop("init", "few rows.jsonl", "--folder", folder), ["no row has a right answer", "--reward"])
    assert strop("init", "few rows.jsonl", "--folder", folder, "--reward", "bad_rewards:text").returncode == 0
    recipe = tomllib.loads((place / folder / "run.toml").read_text())
    assert recipe["name"] == (place / folder).resolve().name
    assert recipe["domains"][0]["tasks"]["params"]["held_out_share"] > 0.1
    assert strop("train", folder, "--dry-run").returncode == 0


def test_init_needs_something_to_hold_out(strop, place):
    (place / "one.jsonl").write_text('{"prompt": "a", "answer": "b"}')
    assert_one_line(strop("init", "one.jsonl"), ["one.jsonl", "add rows"])


def test_the_installed_command_says_the_same(place):
    command = Path(sys.executable).with_name("strop")
    done = subprocess.run(
        [command, "train", "run.toml", "seeed=1"], capture_output=True, text=True, cwd=place, check=False
    )
    assert_one_line(Done(done.returncode, done.stderr), ["unknown key 'seeed'", "'seed'"])
