import pickle

import pytest
from making import rollout

from strop.config.resolve import REWARDS, make_callable
from strop.config.schema import RewardConfig
from strop.core.errors import ConfigError
from strop.core.types import Message, Task
from strop.rewards.policy import PolicyReward

TASK = Task(id="t", domain="d", prompt=(Message(role="user", content="q"),))


def said(text):
    one = rollout(0, 1.0)
    turn = one.turns[0]
    message = Message(role="assistant", content=text)
    changed = type(turn)(input_ids=turn.input_ids, continues=False, completion=turn.completion, message=message)
    return type(one)(task_id="t", index=0, turns=(changed,), status="ok")


def scored(rules, text, **options):
    return PolicyReward(rules, **options)(said(text), TASK)


def rule(kind, check, value, **more):
    return {"id": "R1", kind: {check: value}, **more}


VERDICTS = [  # rule, a text that keeps it, a text that breaks it, what is cited
    (rule("must", "pattern", r"\b\d{3}-\d{4}\b"), "call 555-1234", "call me", "R1 (not found)"),
    (
        rule("must_not", "pattern", r"(?i)guarantee[sd]? returns"),
        "no promise",
        "GUARANTEE returns!",
        "says 'GUARANTEE",
    ),
    (rule("must", "phrases", ["not financial advice"]), "This is NOT  financial\nadvice.", "Buy.", "lacks 'not fin"),
    (rule("must", "phrases", ["one", "two"]), "two, then one", "one alone", "lacks 'two'"),
    (rule("must_not", "phrases", ["as an AI"]), "as an aide", "As an AI, I", "says 'as an AI'"),
    (rule("must_not", "phrases", ["kill"]), "a skill", "to k\u200bill it", "says 'kill'"),
    (rule("must_not", "topics", {"gambling": ["casino", "betting odds"]}), "cash", "the cаsino", "gambling: 'casino'"),
    (rule("must_not", "topics", {"a": ["x1"], "b": ["y1"]}), "x2 y2", "y1", "b: 'y1'"),
    (rule("must", "max_words", 3), "one two three", "one two three four", "4 words, 3 allowed"),
    (rule("must", "max_chars", 4), "four", "fives", "5 characters, 4 allowed"),
    (rule("must_not", "phrases", ["C++"]), "C is fine", "use C++.", "says 'C++'"),
]


@pytest.mark.parametrize(("one", "kept", "broken", "cited"), VERDICTS)
def test_each_form_of_rule_tells_keeping_from_breaking_and_cites_itself(one, kept, broken, cited):
    assert scored([one], kept).value == 1.0
    score = scored([one], broken)
    assert score.value == 0.0 and "breaks 1 of 1 rules: R1 (" in score.detail and cited in score.detail


RULES = """
[[rules]]
id = "S1"
weight = 3
must_not = { topics = { weapons = ["rifle"] } }

[[rules]]
id = "S2"
must = { phrases = ["kind regards"] }

[[rules]]
id = "S3"
must = { max_words = 5 }
"""


def test_rules_of_a_file_pay_by_weight_and_only_the_broken_are_cited(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    score = scored(str(file), "A rifle. Kind regards")
    assert score.value == pytest.approx(0.4)
    assert "S1 (weapons: 'rifle')" in score.detail and "S2" not in score.detail and "S3" not in score.detail
    assert scored(file, "Kind regards").value == 1.0
    assert scored(file, "hello").value == pytest.approx(0.8)
    assert scored(file, "hello", score="all").value == 0.0
    assert scored(file, "one two three four five six rifle").value == 0.0


def test_thinking_is_read_only_where_asked():
    forbids = [rule("must_not", "phrases", ["rifle"])]
    text = "<think>a rifle?</think>No."
    assert scored(forbids, text).value == 1.0 and scored(forbids, text, thinking=True).value == 0.0


@pytest.mark.parametrize("kind", ["must", "must_not"])
def test_a_text_on_which_a_pattern_finds_no_end_earns_nothing_soon(kind):
    score = scored([rule(kind, "pattern", "(a|aa)+$")], "a" * 90 + "b")
    assert score.value == 0.0 and "R1 (no verdict in 0.5 s)" in score.detail


def test_it_travels():
    reward = PolicyReward([rule(*v) for v in (("must", "max_words", 3),)])
    assert pickle.loads(pickle.dumps(reward))(said("a b c d"), TASK).value == 0.0


BAD = [
    ([], "at least one table"),
    ("nowhere.toml", "nowhere.toml: cannot be read"),
    ([{"must": {"max_words": 3}}], "rule 1 needs an id"),
    ([rule("must", "max_words", 3)] * 2, "two rules have the id 'R1'"),
    ([{"id": "R1"}], "rule 'R1': needs one of must and must_not, has neither"),
    ([{"id": "R1", "must": {"max_words": 1}, "must_not": {"phrases": ["a"]}}], "has must and must_not"),
    ([{"id": "R1", "must": {"max_words": 1, "max_chars": 1}}], "must must be a table with one of"),
    ([{"id": "R1", "must": "be kind"}], "must must be a table with one of pattern, phrases, max_words, max_chars"),
    ([rule("must_not", "max_words", 3)], "unknown key 'max_words'; known are pattern, phrases, topics"),
    ([rule("must", "topics", {"a": ["b"]})], "unknown key 'topics'"),
    ([rule("must", "phrase", ["a"])], "did you mean 'phrases'"),
    ([rule("must", "pattern", "(")], r"pattern '\(' is no regular expression"),
    ([rule("must", "pattern", 3)], "pattern 3 is no regular expression"),
    ([rule("must", "phrases", "please")], "phrases must be a list of at least one text, got 'please'"),
    ([rule("must", "phrases", ["  "])], "no text to look for"),
    ([rule("must_not", "topics", ["guns"])], "topics must be a table of names with their words"),
    ([rule("must_not", "topics", {"guns": "rifle"})], "topic 'guns' must be a list"),
    ([rule("must", "max_words", 0)], "max_words must be a whole number of at least 1"),
    ([rule("must", "max_words", 2.5)], "max_words must be a whole number of at least 1"),
    ([rule("must", "max_words", 3, weight=0)], "weight must be a number above 0"),
    ([rule("must", "max_words", 3, wieght=1)], "unknown key 'wieght'; did you mean 'weight'"),
]


@pytest.mark.parametrize(("rules", "told"), BAD)
def test_rules_that_cannot_be_are_one_line_with_the_reward_and_the_rule(rules, told):
    config = RewardConfig(name="policy", use="policy", params={"rules": rules})
    with pytest.raises(ConfigError, match=told) as error:
        make_callable(config, REWARDS, "domain 'd', reward 'policy'")
    assert str(error.value).startswith("domain 'd', reward 'policy': ") and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["x = [", "title = 3", "", "[[rules]]\nid = 'a'\n[other]\n"])
def test_a_file_that_holds_no_rules_is_named(tmp_path, text):
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(ValueError, match=r"rules\.toml: (?:not valid TOML|must hold \[\[rules\]\] and nothing else)"):
        PolicyReward(tmp_path / "rules.toml")
