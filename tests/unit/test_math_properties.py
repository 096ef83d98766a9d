"""Equivalence on generated expressions: reflexive, blind to spelling, symmetric, and total."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from strop.rewards.math import answers, judge, same_answer
from strop.rewards.math.decide import judge_readings
from strop.rewards.math.exact import UndecidedError, UndefinedError, evaluate
from strop.rewards.math.numeric import numeric_equal
from strop.rewards.math.parse import parse
from strop.rewards.math.symbolic import decide
from strop.rewards.math.tokens import tokenize

MANY = settings(max_examples=300, deadline=None)
LEAVES = st.one_of(
    st.integers(0, 999).map(lambda n: (str(n), str(n))),
    st.sampled_from([("x", "x"), ("y", "y"), (r"\pi", "pi"), ("i", "i"), ("2.5", "2.5"), (r"\alpha", "alpha")]),
)


def _grown(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: (f"{p[0][0]}+{{{p[1][0]}}}", f"({p[0][1]}) + ({p[1][1]})")),
        pair.map(lambda p: (f"{p[0][0]}-\\left({p[1][0]}\\right)", f"{p[0][1]} - ({p[1][1]})")),
        pair.map(lambda p: (rf"({p[0][0]})\cdot({p[1][0]})", f"({p[0][1]})*({p[1][1]})")),
        pair.map(lambda p: (rf"\frac{{{p[0][0]}}}{{{p[1][0]}}}", f"({p[0][1]})/({p[1][1]})")),
        inner.map(lambda p: (rf"\sqrt{{{p[0]}}}", f"sqrt({p[1]})")),
        inner.map(lambda p: (rf"\left({p[0]}\right)^{{2}}", f"({p[1]})**2")),
        inner.map(lambda p: (rf"\sin\left({p[0]}\right)", f"sin({p[1]})")),
    )


EXPRESSIONS = st.recursive(LEAVES, _grown, max_leaves=8)
PIECES = st.sampled_from(
    r"\frac \sqrt { } ( ) [ ] \{ \} , ; | 0 1 2 37 1,000 0.5 3. x y e i \pi \infty + - * / ^ _ = < > \le \in \cup"
    r" \setminus \pm ! % ^\circ \text{cm} \text{or} \mathbb{R} \emptyset \sin \log_ \ln \binom \begin{pmatrix}"
    r" \end{pmatrix} & \\ : mod $ \$ \boxed{ <think> </think> <answer> ``` #### Answer: is and \overline{6} ½ √ ² − ，"
    " f( \\left \\right \n .".split(" ")
)
NOISE = st.lists(PIECES, max_size=25).map(" ".join) | st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=40)


def _has_value(text):
    """Exact arithmetic can do it and it divides by nothing that is zero."""
    try:
        evaluate(parse(tokenize(text)))
    except UndefinedError:
        return False
    except UndecidedError:
        return True
    return True


@MANY
@given(EXPRESSIONS)
def test_an_expression_equals_itself_in_either_spelling(pair):
    latex, plain = pair
    assert same_answer(latex, latex, numeric_equal) is True
    if _has_value(plain):
        assert same_answer(latex, plain, numeric_equal) is not False
        assert same_answer(plain, latex, numeric_equal) is not False


@MANY
@given(EXPRESSIONS, EXPRESSIONS)
def test_equality_of_expressions_is_symmetric(left, right):
    for a, b in ((left[0], right[1]), (left[1], right[0])):
        assert same_answer(a, b) == same_answer(b, a)


@MANY
@given(EXPRESSIONS, st.integers(1, 9))
def test_an_expression_never_equals_itself_and_some_more(pair, more):
    if _has_value(pair[1]):
        assert same_answer(pair[0], f"({pair[1]}) + {more}", numeric_equal) is not True


@MANY
@given(st.fractions(max_denominator=10**6))
def test_numbers_are_compared_by_value(value):
    spelled = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert same_answer(str(value), spelled) is True
    assert same_answer(spelled, rf"{2 * value.numerator}/{2 * value.denominator}") is True
    assert same_answer(spelled, str(value + Fraction(1, 10**9))) is False


@MANY
@given(st.integers(-(10**15), 10**15))
def test_thousands_may_be_marked_and_places_may_not_move(number):
    assert same_answer(str(number), f"{number:,}") is True
    assert same_answer(f"{number:,}", f"{number}.0") is True
    assert same_answer(str(number), str(number + 1)) is False


@MANY
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6), st.randoms())
def test_order_matters_in_tuples_and_not_in_sets(values, random):
    shuffled = random.sample(values, len(values))
    text, other = (", ".join(map(str, v)) for v in (values, shuffled))
    assert same_answer(rf"\{{{text}\}}", rf"\{{{other}\}}") is True
    assert same_answer(text, other) is True
    assert same_answer(f"({text})", f"({other})") is (values == shuffled)


@settings(max_examples=600, deadline=None)
@given(NOISE, NOISE)
def test_no_text_raises_and_all_end(gold, given_text):
    readings = answers(given_text)
    assert judge(gold, given_text) in (True, False, None)
    assert decide(gold, list(readings)) in (True, False)
    assert judge_readings(gold, readings, numeric_equal) in (True, False, None)


@MANY
@given(NOISE)
def test_an_answer_equals_itself(text):
    if text.strip():
        assert same_answer(text, text) is True
