"""Names that other languages accept."""

import pytest

from picardfit.exporters.names import Names, Spelling, plain_text, renamed

WORDS = Spelling(frozenset({"model", "time"}))


@pytest.mark.parametrize(
    "name, there",
    [
        ("birth", "birth"),
        ("β", "beta"),
        ("Ω", "Omega"),
        ("é", "e"),
        ("boys in bed", "boys_in_bed"),
        ("model", "model_1"),
        ("2nd", "n2nd"),
        ("_hidden", "hidden"),
        ("noise.additive", "noise_additive"),
        ("中", "4e2d"),
    ],
)
def test_spelling(name, there):
    found = Names(WORDS).add(name)
    assert found.endswith(there)
    assert WORDS.accepts(found)


def test_no_two_names_are_equal():
    given = Names(WORDS)
    found = given.add_all(["a b", "a_b", "a-b", "a_b_1", "beta", "β"])
    assert len(set(found.values())) == 6
    assert found["a b"] == "a_b"


def test_an_observable_with_the_name_of_a_state_says_what_it_is():
    given = Names(WORDS)
    given.add("prey")
    assert given.add("prey", also="observed") == "prey_observed"
    assert given.add("prey", also="observed") == "prey_1"


def test_case_matters_only_where_the_language_says_so():
    careless = Spelling(frozenset({"time"}), ignores_case=True)
    assert (Names(WORDS).add("Time"), Names(careless).add("Time")) == ("Time", "Time_1")
    assert Names(careless).add_all(["k", "K"]) == {"k": "k", "K": "K"}


def test_python_has_letters_of_all_alphabets():
    assert Names(Spelling(frozenset({"lambda"}), ascii=False)).add_all(["β", "lambda"]) == {
        "β": "β",
        "lambda": "lambda_1",
    }


def test_only_changed_names_are_told():
    assert renamed({"a": "a", "β": "beta"}) == {"β": "beta"}


def test_comments_stay_on_one_line():
    assert plain_text("a\nb\u2028c\x00d") == "a b c d"
    assert len(plain_text("x" * 999)) == 200
