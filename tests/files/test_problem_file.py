"""problem.toml: what it says, and what is said about its faults."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.cli.new import Starter
from picardfit.errors import Audience
from picardfit.files.problem_file import read_problem_file
from picardfit.files.toml_source import ProblemFileError, schema

CSV = "time,prey,pred\n0,10,5\n1,12,6\n2,9,7\n3,8,5\n"
EQUATIONS = '''equations = """
prey' = a*prey - b*prey*pred
pred' = -c*pred + b*prey*pred
"""
'''
BOUNDS = "[parameters]\na = [0.1, 10]\nb = [0.001, 1]\nc = [0.1, 10]\n"
MINIMAL = f'{EQUATIONS}data = "counts.csv"\n{BOUNDS}'


@pytest.fixture
def write(tmp_path):
    (tmp_path / "counts.csv").write_text(CSV)

    def writer(text, **tables):
        for name, content in tables.items():
            (tmp_path / f"{name}.csv").write_text(content)
        (tmp_path / "problem.toml").write_text(text, encoding="utf-8")
        return tmp_path / "problem.toml"

    return writer


def faults(path):
    """The located InputErrors of a file that must have some."""
    error = complaint(read_problem_file, path)
    assert isinstance(error, ProblemFileError)
    assert all(one.place.file == str(path) or one.place.file.endswith(".csv") for one in error.faults)
    return error.faults


def faults_of(path):
    """[(line, message)] of a file that must have some."""
    return [(fault.place.line, fault.sentence(Audience.FILE)) for fault in faults(path)]


def line_of(path, text):
    return next(k for k, line in enumerate(path.read_text().splitlines(), 1) if text in line)


# ---- what it says ------------------------------------------------------------------------------------------


def test_equations_data_and_bounds_are_enough(write):
    problem = pf.read_problem(write(MINIMAL))
    assert problem.model.states == ("prey", "pred")
    assert problem.parameters["b"].bounds == (0.001, 1)
    assert problem.names == ("counts",)
    np.testing.assert_array_equal(problem.experiments[0].observations["pred"], [5, 6, 7, 5])


def test_what_was_left_out_of_a_table_is_remembered(write):
    rows = "experiment,time,prey,pred\nlake,0,1,2\nlake,1,2,3\npond,0,,\n"
    problem = pf.read_problem(write(MINIMAL, counts=rows))
    assert problem.names == ("lake",)
    assert "Experiment `pond` of `counts.csv` was left out" in str(problem.remarks[0])


def test_equations_may_go_on_in_the_next_line(write):
    broken = MINIMAL.replace("a*prey - b", "a*prey\n   - b")
    assert pf.read_problem(write(broken)).model.equations == pf.read_problem(write(MINIMAL)).model.equations


def test_a_folder_stands_for_its_problem_file(write):
    path = write(MINIMAL)
    assert read_problem_file(path.parent).path == path


def test_parameters_in_every_form(write):
    table = "{ bounds = [0.1, 1], log = true, start = 0.5, local = true, unit = '1/h' }"
    text = MINIMAL.replace("a = [0.1, 10]", f"a = {table}").replace("c = [0.1, 10]", "c = 2")
    text = text.replace("b = [0.001, 1]", "b = {}")
    parameters = pf.read_problem(write(text)).parameters
    assert parameters["a"] == pf.Parameter(0.1, 1, log=True, start=0.5, local=True, unit="1/h")
    assert parameters["b"] == pf.Parameter()
    assert parameters["c"].fixed == 2


def test_units_are_read(write):
    problem = pf.read_problem(write(MINIMAL + '[units]\nt = "day"\nprey = "1/ha"\n'))
    assert problem.model.units == {"t": "day", "prey": "1/ha"}


@pytest.mark.parametrize(
    "line, words", [('fox = "1/ha"', "not a name of the model"), ("prey = 3", "must be text")]
)
def test_bad_units_are_found_in_their_line(write, line, words):
    path = write(f"{MINIMAL}[units]\n{line}\n")
    ((place, message),) = faults_of(path)
    assert place == line_of(path, line)
    assert words in message


def test_initial_states_in_every_form(write):
    text = MINIMAL + 'd = [0, 20]\n[initial]\nprey = "2*d"\npred = [1, 9]\n'
    problem = pf.read_problem(write(text))
    assert problem.initial["pred"] == pf.Parameter(1, 9)
    assert problem.layout.count() == 5
    assert problem.loss({"a": 1, "b": 0.1, "c": 1, "d": 5}, {"pred": 5}) == problem.loss(
        {"a": 1, "b": 0.1, "c": 1, "d": 5}, {"prey": 10, "pred": 5}
    )


def test_experiments_refine_what_the_table_brings(write):
    table = "experiment,time,prey,pred\none,2,10,5\none,3,11,5\ntwo,2,4,3\ntwo,3,5,3\n"
    text = MINIMAL.replace("data", 't0 = "first"\ndata')
    text += "[experiments.two]\nt0 = -1\ninitial = { prey = 3.5 }\n"
    one, two = pf.read_problem(write(text, counts=table)).experiments
    assert (one.t0, one.initial) == (2.0, {})
    assert (two.t0, two.initial) == (-1.0, {"prey": 3.5})


YEARS = "time,prey,pred\n1900,10,5\n1901,12,6\n1902,9,7\n1903,8,5\n"


def test_years_begin_with_the_first_sample(write):
    assert pf.read_problem(write(MINIMAL, counts=YEARS)).experiments[0].t0 == 1900
    assert pf.read_problem(write("t0 = 0\n" + MINIMAL, counts=YEARS)).experiments[0].t0 == 0
    near = YEARS.replace("190", "")  # 0, 1, 2, 3
    assert pf.read_problem(write(MINIMAL, counts=near.replace("\n0,", "\n0.5,"))).experiments[0].t0 == 0


@pytest.mark.parametrize("section", ["[initial]", "[experiments.counts.initial]"])
def test_years_and_a_known_initial_state_must_say_when_it_holds(write, section):
    text = f"{MINIMAL}{section}\npred = [1, 9]\nprey = 10\n"
    path = write(text, counts=YEARS)
    ((line, message),) = faults_of(path)
    assert line == line_of(path, "prey = 10")
    assert "`prey`" in message
    assert 't0 = "first"' in message
    assert pf.read_problem(write('t0 = "first"\n' + text)).experiments[0].t0 == 1900


DOSED = """
equations = "gut' = -ka*gut"
data = { file = "doses.csv", dose = { column = "dose", into = "gut" } }
parameters = { ka = [0.1, 9] }
initial = { gut = 0 }
"""


@pytest.mark.parametrize("shift", [0, -1, 2000], ids=["at 0", "before 0", "years"])
def test_doses_from_a_column(write, shift):
    rows = ("a,0,,50", "a,1,30,0", "a,2,20,25", "a,3,9,", "b,0,,", "b,1,7,", "b,3,2,")
    moved = [f"{one[:2]}{int(one[2]) + shift}{one[3:]}" for one in rows]
    table = "\n".join(["experiment,time,gut,Dose (mg)", *moved]) + "\n"
    begin = f"t0 = {shift}\n{DOSED}" if shift else DOSED
    first, second = pf.read_problem(write(begin, doses=table)).experiments
    (doses,) = first.doses
    assert (doses.times.tolist(), doses.amounts.tolist()) == ([shift, 2 + shift], [50, 25])
    assert (doses.into, first.t0, second.doses) == ("gut", shift, ())
    own = "[experiments.a]\ndoses = { into = 'gut', times = 0, amounts = 7 }\n"
    if not shift:
        refined = pf.read_problem(write(begin + own, doses=table)).experiments[0]
        assert refined.doses[0].amounts.tolist() == [7]


@pytest.mark.parametrize(
    "old, new, code",
    [
        ('column = "dose"', 'column = "amount"', "files.no_column"),
        ('into = "gut"', 'into = "gutt"', "problem.dose_into"),
        (', into = "gut"', "", "files.dose_column"),
        ('{ column = "dose", into = "gut" }', '"dose"', "files.not_a_table"),
        ("dose = {", 'format = "nonmem", dose = {', "files.nonmem_setting"),
    ],
)
def test_a_wrong_column_of_doses_is_a_fault(write, old, new, code):
    path = write(DOSED.replace(old, new), doses="time,gut,dose\n0,,50\n1,2,\n2,1,\n")
    (found,) = faults(path)
    assert (found.code, found.place.line) in ((code, line_of(path, "data =")), ("problem.dose_into", None))


def test_inputs_from_columns_tables_and_formulas(write):
    text = """
        inputs = ["feed"]
        equations = "x' = feed - k*x"
        data = "feeding.csv"
        parameters = { k = [0, 1] }
    """
    problem = pf.read_problem(write(text, feeding="time,x,feed\n0,1,5\n1,2,\n2,3,7\n"))
    np.testing.assert_array_equal(problem.experiments[0].inputs["feed"].at(np.array([0.5, 2])), [5, 7])
    table = "{ times = [0, 2], values = [0, 4], kind = 'linear' }"
    for spec, value in (("2", 2), ("'3*t'", 3), (table, 2), ("{ column = 'Feed' }", 5)):
        changed = text.replace('inputs = ["feed"]', f"inputs = {{ feed = {spec} }}")
        data = "time,x\n0,1\n1,2\n" if "column" not in spec else "time,x,FEED\n0,1,5\n1,2,5\n"
        found = pf.read_problem(write(changed, feeding=data)).experiments[0].inputs["feed"]
        assert found.at(np.array([1.0])) == value


def test_an_experiment_has_its_own_input(write):
    text = """
        equations = "x' = feed - k*x"
        data = "feeding.csv"
        inputs = { feed = 1 }
        parameters = { k = [0, 1] }
        [experiments.two.inputs]
        feed = 2
    """
    table = "experiment,time,x\none,0,1\none,1,2\ntwo,0,1\ntwo,1,3\n"
    one, two = pf.read_problem(write(text, feeding=table)).experiments
    assert (one.inputs["feed"].value, two.inputs["feed"].value) == (1, 2)


def test_several_files_each_with_its_settings(write):
    text = MINIMAL.replace(
        '"counts.csv"', '["counts.csv", { file = "more.csv", time = "day", observables = ["prey"] }]'
    )
    problem = pf.read_problem(write(text, more="day,prey,pred,note\n0,1,2,x\n1,2,3,y\n"))
    assert problem.names == ("counts", "more")
    assert problem.experiments[1].observables == ("prey",)


def test_settings_of_the_fit(write):
    text = MINIMAL + (
        "[fit]\nstarts = 3\nseed = 7\nmax_iterations = 9\nlevel = 0.9\nstart = { a = 1 }\nsettings = { nodes = 4 }\n"
    )
    settings = read_problem_file(write(text)).settings
    assert settings.method == pf.LiftedGaussNewton(nodes=4, max_iterations=9)
    assert (settings.starts, settings.seed, settings.level, settings.start) == (3, 7, 0.9, {"a": 1.0})


def test_methods_of_the_paper_by_name(write):
    text = MINIMAL + "[fit]\nmethod = 'gradient-descent'\nsettings = { order = 4 }\n"
    assert read_problem_file(write(text)).settings.method == pf.GradientDescent(order=4)


@pytest.mark.parametrize(
    "section, noise",
    [
        ("additive = 0.5\nproportional = 0.1", pf.Noise(additive=0.5, proportional=0.1)),
        ("additive = [0.1, 5]\ncommon = true\nproportional = 0.1", None),
        ("additive = { prey = 0.5, pred = [0.1, 2] }", pf.Noise(additive={"prey": 0.5, "pred": (0.1, 2)})),
        ("type = 'log-normal'\nsigma = 0.2", pf.LogNormal(sigma=0.2)),
        ("type = 'student-t'\nadditive = 1.0\ndegrees = 4.0", pf.StudentT(additive=1.0, degrees=4.0)),
        ("prey = { type = 'laplace', scale = 0.5 }\npred = { additive = 1 }", None),
    ],
)
def test_noise(write, section, noise):
    problem = pf.read_problem(write(f"{MINIMAL}[noise]\n{section}\n"))
    assert problem.noise is not None
    assert noise is None or problem.noise == noise


@pytest.mark.parametrize(
    "section, words",
    [
        ("additve = 1", "Did you mean `additive`?"),
        ("type = 'lognormal'", "Did you mean `log-normal`?"),
        ("type = 3", "unknown"),
        ("additive = 'x y'", "operator"),
        ("additive = -1", "positive"),
    ],
)
def test_wrong_noise(write, section, words):
    path = write(f"{MINIMAL}[noise]\n{section}\n")
    ((line, message),) = faults_of(path)
    assert words in message, message
    assert line in (line_of(path, "[noise]"), line_of(path, section))


def test_priors(write):
    text = MINIMAL.replace(
        "a = [0.1, 10]", "a = { bounds = [0.1, 10], prior = { type = 'normal', mean = 1, sd = 2 } }"
    )
    assert "[noise]" in faults_of(write(text))[0][1]
    text += "[noise]\nadditive = 1\n"
    assert pf.read_problem(write(text)).parameters["a"].prior == pf.priors.Normal(1, 2)
    found = faults_of(write(text.replace("sd = 2", "sdd = 2")))
    assert "Did you mean `sd`?" in found[0][1]
    assert "`sd`" in faults_of(write(text.replace(", sd = 2", "")))[0][1]


def test_a_plan_needs_no_data(write):
    text = MINIMAL.replace('data = "counts.csv"\n', "")
    assert read_problem_file(write(text), needs_data=False).problem is None
    assert "no data" in faults_of(write(text))[0][1]


# ---- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, line_with, code, subject, key",
    [
        ("a = [0.1, 10]", "aa = [0.1, 10]", "aa =", "files.unknown_parameter", "aa", ("parameters", "aa")),
        ("a = [0.1, 10]", "a = [10, 0.1]", "a = [10", "model.bounds_swapped", "a", ("parameters", "a")),
        ("a = [0.1, 10]", "a = [1, 1]", "a = [1,", "model.bounds_equal", "a", ("parameters", "a")),
        ("a = [0.1, 10]", "a = [1, 2, 3]", "a = [1,", "files.not_a_pair", "a", ("parameters", "a")),
        ("a = [0.1, 10]", "a = 'x'", "a = 'x'", "files.parameter_kind", "a", ("parameters", "a")),
        (
            "a = [0.1, 10]",
            "a = [0.1, 'x']",
            "a = [0.1",
            "errors.not_a_number",
            "a",
            ("parameters", "a"),
        ),
        (
            "a = [0.1, 10]",
            "a = { lowr = 1 }",
            "lowr",
            "files.unknown_key",
            "lowr",
            ("parameters", "a", "lowr"),
        ),
        (
            "a = [0.1, 10]",
            "a = { lower = -1, log = true }",
            "log",
            "model.log_lower_bound",
            "a",
            ("parameters", "a"),
        ),
        ("a = [0.1, 10]", "a = { log = 1 }", "log", "errors.not_a_flag", "log", ("parameters", "a", "log")),
        (
            "a = [0.1, 10]",
            "a = { bounds = [0, 1], lower = 0 }",
            "bounds",
            "files.bounds_twice",
            "a",
            ("parameters", "a", "bounds"),
        ),
        ("a = [0.1, 10]", "", "prey' = a", "files.no_bounds", "a", ("equations",)),
        ("a = [0.1, 10]", "a = 1979-05-27", "1979", "files.parameter_kind", "a", ("parameters", "a")),
        ("b*prey*pred\npred", "b*prye*pred\npred", "prye", "files.no_bounds", "prye", ("equations",)),
        (
            "a*prey -",
            "a*prey - (",
            "a*prey",
            "formulas.never_closed",
            "a*prey - ( b*prey*pred",
            ("equations",),
        ),
        ("-c*pred", "-c*ped.x", "ped.x", "formulas.attribute", ".", ("equations",)),
        (
            "-c*pred",
            "-c*__import__('os')",
            "__import__",
            "formulas.text_in_quotes",
            "-c*__import__('os') + b*prey*pred",
            ("equations",),
        ),
        ("pred' =", "prey' =", "pred + b", "formulas.second_equation", "prey", ("equations",)),
        ('"counts.csv"', '"count.csv"', "count.csv", "files.no_table", "count.csv", ("data",)),
        ('"counts.csv"', "3", "data = 3", "files.data_kind", "", ("data",)),
        ('"counts.csv"', "'/'", "data = '/'", "files.data_not_a_file", "/", ("data",)),
        ('"counts.csv"', "{ fil = 'counts.csv' }", "fil =", "files.unknown_key", "fil", ("data", "fil")),
        (
            '"counts.csv"',
            "{ file = 'counts.csv', time = 'tme' }",
            "tme",
            "files.no_column",
            "tme",
            ("data", "time"),
        ),
        ("data =", "dta =", "dta =", "files.unknown_key", "dta", ("dta",)),
        ("data =", "t0 = 'last'\ndata =", "t0 =", "files.t0", "", ("t0",)),
        ("data =", "t0 = 5\ndata =", "t0 =", "problem.late_start", "counts", ("t0",)),
        ("data =", "inputs = ['dose']\ndata =", "inputs", "model.unused_input", "dose", ("inputs", "dose")),
        (
            "data =",
            "observables = { y = '2*prey +' }\ndata =",
            "observables",
            "formulas.missing_at_end",
            "2*prey +",
            ("observables", "y"),
        ),
        (
            "data =",
            "observables = ['pray']\ndata =",
            "observables",
            "model.unknown_name",
            "pray",
            ("observables", "pray"),
        ),
        (
            "[parameters]",
            "[initial]\nfox = 1\n[parameters]",
            "fox",
            "files.unknown_state",
            "fox",
            ("initial", "fox"),
        ),
        (
            "[parameters]",
            "[initial]\nprey = '1 +'\n[parameters]",
            "prey = '1",
            "formulas.missing_at_end",
            "1 +",
            ("initial", "prey"),
        ),
        (
            "[parameters]",
            "[experiments.count]\n[parameters]",
            "[experiments",
            "files.experiment_not_in_data",
            "count",
            ("experiments", "count"),
        ),
        (
            "[parameters]",
            "[experiments.counts]\ninitail = {}\n[parameters]",
            "initail",
            "files.unknown_key",
            "initail",
            ("experiments", "counts", "initail"),
        ),
        (
            "[parameters]",
            "[fit]\nstarts = 0\n[parameters]",
            "starts",
            "errors.not_whole",
            "starts",
            ("fit", "starts"),
        ),
        (
            "[parameters]",
            "[fit]\nstrats = 1\n[parameters]",
            "strats",
            "files.unknown_key",
            "strats",
            ("fit", "strats"),
        ),
        (
            "[parameters]",
            "[fit]\nmethod = 'newton'\n[parameters]",
            "method",
            "files.unknown_method",
            "newton",
            ("fit", "method"),
        ),
        (
            "[parameters]",
            "[fit]\nsettings = { node = 3 }\n[parameters]",
            "settings",
            "files.unknown_key",
            "node",
            ("fit", "settings", "node"),
        ),
        (
            "[parameters]",
            "[fit]\nstart = { d = 3 }\n[parameters]",
            "start",
            "files.not_a_parameter",
            "d",
            ("fit", "start", "d"),
        ),
        (
            "[parameters]",
            "[truth]\nparameters = { d = 3 }\n[parameters]",
            "d = 3",
            "files.not_a_parameter",
            "d",
            ("truth", "parameters", "d"),
        ),
    ],
)
def test_a_fault_has_its_line_key_and_code(write, old, new, line_with, code, subject, key):
    assert old in MINIMAL
    path = write(MINIMAL.replace(old, new, 1))
    found = [(one.place.line, one.code, one.subject, one.place.key) for one in faults(path)]
    assert (line_of(path, line_with), code, subject, key) in found


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("a = [0.1, 10]", "aa = [0.1, 10]", "Did you mean `a`?"),
        ("a = [0.1, 10]", "a = { lower = -1, log = true }", "positive"),
        ("a = [0.1, 10]", "a = { log = 1 }", "log = true"),
        ("a = [0.1, 10]", "a = [10, 0.1]", "swap"),
        ("-c*pred", "-c*__import__('os')", "quotes"),
        ('"counts.csv"', '"count.csv"', "Did you mean `counts.csv`?"),
        ("data =", "t0 = 5\ndata =", "lower t0"),
        ("[parameters]", "[fit]\nstarts = 0\n[parameters]", "write for example starts = 1."),
        ("[parameters]", "[fit]\nstarts = 1000000000\n[parameters]", "write at most 100000."),
        ("[parameters]", "[fit]\nmethod = 'newton'\n[parameters]", "lifted-gauss-newton"),
    ],
)
def test_a_fault_comes_with_a_remedy_in_the_words_of_files(write, old, new, words):
    messages = [message for _, message in faults_of(write(MINIMAL.replace(old, new, 1)))]
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(
    "text, line, code",
    [
        ("a = [1,\n", 1, "files.toml_end"),
        ("a = [1, 2\nb = 1", 2, "files.toml_list"),
        ("a = 1\nb = yes\n", 2, "files.toml_value"),
        ("a = [1, yes]\n", 1, "files.toml_value"),
        ("a = 1\na = 2\n", 2, "files.toml_repeated"),
        ("[a]\nb = 1\n[a]\n", 3, "files.toml_repeated"),
        ('x = "abc\n', 1, "files.toml_quotes"),
        ("a = 1\nfoo\n", 2, "files.toml_statement"),
        ("a b = 1\n", 1, "files.toml_statement"),
        ("a = 1 2\n", 1, "files.toml_value"),
    ],
)
def test_a_syntax_error_has_its_line_and_code(write, text, line, code):
    (fault,) = faults(write(text))
    assert (fault.place.line, fault.code) == (line, code)


def test_all_faults_are_told_at_once(write):
    text = MINIMAL.replace("a*prey", "a prey").replace("-c*pred", "-c*pred)").replace("counts", "cuonts")
    text = text.replace("b = [0.001, 1]", "b = [2, 1]") + "[fit]\nseed = -1\n[colour]\n"
    path = write(text)
    wanted = ("a prey", "-c*pred)", "cuonts", "b = [2", "seed", "[colour]")
    assert [line for line, _ in faults_of(path)] == [line_of(path, one) for one in wanted]


def test_the_message_is_one_line_a_fault(write):
    path = write(MINIMAL.replace("a = [0.1, 10]", "a = [2, 1]").replace("c = [0.1, 10]", "c = 'x'"))
    with pytest.raises(pf.InputError) as caught:
        pf.read_problem(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(re.match(rf"{re.escape(str(path))}:\d+: ", line) for line in lines)


def test_lines_of_equations_are_lines_of_the_file(write):
    path = write(MINIMAL.replace("-c*pred", "-d*pred\nd = c"))
    ((line, message),) = faults_of(path)
    assert line == line_of(path, "-d*pred")
    assert f"line {line_of(path, 'd = c')}" in message


def test_a_column_that_nothing_uses_is_ignored_with_a_remark(write):
    problem = pf.read_problem(write(MINIMAL, counts="time,prey,perd,notes\n0,1,2,\n1,2,many,rain\n"))
    assert problem.experiments[0].observables == ("prey",)
    (remark,) = problem.remarks
    assert (remark.code, remark.subject) == ("problem.columns_ignored", "counts.csv")
    assert (remark.values["columns"], remark.values["close"]) == (["perd", "notes"], "pred")


def test_a_table_without_an_observable_is_a_fault(write):
    ((line, message),) = faults_of(write(MINIMAL, counts="time,perd\n0,2\n1,3\n"))
    assert line == 5
    assert "Did you mean `pred`?" in message


def test_a_wrong_cell_is_named_with_its_line(write):
    path = write(MINIMAL, counts="time,prey,pred\n0,1,2\n1,x,3\n")
    (fault,) = faults(path)
    assert (fault.place.file, fault.place.line) == (str(path.with_name("counts.csv")), 3)
    assert "observables = [...] in [data]" in str(fault)


def test_a_table_as_a_whole_is_named_at_the_line_that_names_it(write):
    path = write(MINIMAL, counts="age,prey,pred\n0,1,2\n")
    assert f"{path}:5: Table `counts.csv`: none of the columns" in str(faults(path)[0])


def test_an_error_with_one_fault_is_that_fault(write):
    path = write(MINIMAL.replace("a = [0.1, 10]", "a = { lower = 0, log = true }", 1))
    error = complaint(pf.read_problem, path)
    (fault,) = error.faults
    assert (error.code, error.subject, error.place) == (fault.code, fault.subject, fault.place)
    assert (error.place.file, error.place.line) == (str(path), 7)
    assert error.remedy == "write for example 1e-06, or leave log = true out"


def test_an_error_with_several_faults_names_the_file(write):
    path = write(MINIMAL.replace("[0.1, 10]", "[10, 0.1]") + "[fit]\nseed = -1\n")
    error = complaint(pf.read_problem, path)
    assert (error.code, error.place.file, error.place.line) == ("files.faults", str(path), None)
    assert error.remedy


INPUT = MINIMAL.replace("prey' = a*prey", "prey' = u + a*prey")


@pytest.mark.parametrize(
    "text, line_with, code, subject, key",
    [
        ("inputs = 3\n" + INPUT, "inputs", "files.not_a_table", "inputs", "inputs"),
        (INPUT + "[inputs]\nu = []\n", "u = []", "files.input_kind", "u", "inputs.u"),
        (
            INPUT + "[inputs]\nu = { times = [0, 1], values = [1, 2, 3] }\n",
            "u = {",
            "model.table_lengths",
            "u",
            "inputs.u",
        ),
        (INPUT + "[inputs]\nu = { column = 'uu' }\n", "u = {", "files.no_column", "uu", "inputs.u"),
        (
            INPUT + "[inputs]\nu = 1\n[experiments.counts.inputs]\nu = 't +'\n",
            "u = 't",
            "formulas.missing_at_end",
            "t +",
            "experiments.counts.inputs.u",
        ),
        (
            MINIMAL.replace("a = [0.1, 10]", "a = { prior = 1.0 }"),
            "a = {",
            "files.prior_kind",
            "prior",
            "parameters.a.prior",
        ),
        (
            MINIMAL.replace("a = [0.1, 10]", "a = { prior = { mean = 1 } }"),
            "a = {",
            "files.no_type",
            "a",
            "parameters.a.prior",
        ),
        (
            MINIMAL.replace("a = [0.1, 10]", "a = { prior = { type = 'normal', mean = 1 } }"),
            "a = {",
            "files.incomplete",
            "a",
            "parameters.a.prior",
        ),
        ("noise = 0.1\n" + MINIMAL, "noise", "files.noise_kind", "noise", "noise"),
        (
            MINIMAL + "[noise]\nadditive = 'level'\n",
            "additive",
            "problem.unknown_in_noise",
            "level",
            "noise.additive",
        ),
        (
            MINIMAL + "[noise.prey]\nadditive = 1\n[noise.pred]\nadditive = -2\n",
            "additive = -2",
            "model.level_not_positive",
            "additive",
            "noise.pred.additive",
        ),
        (
            MINIMAL + "[initial]\nprey = 'N0*2'\n",
            "N0*2",
            "files.no_bounds",
            "N0",
            "initial.prey",
        ),
        (MINIMAL + "a = 3\n", "a = 3", "files.toml_repeated", "parameters.a", "parameters.a"),
    ],
)
def test_one_mistake_is_one_fault_at_its_own_line(write, text, line_with, code, subject, key):
    path = write(text)
    found = [
        (one.place.line, one.code, one.subject, ".".join(map(str, one.place.key))) for one in faults(path)
    ]
    assert found == [(line_of(path, line_with), code, subject, key)]


@pytest.mark.parametrize(
    "entry, words",
    [
        ("lower = 0, upper = 1, prior = { type = 'uniform', lower = 7, upper = 8 }", "7 to 8"),
        ("prior = { type = 'uniform', lower = 3, upper = 2 }", "uniform prior from 3 to 2"),
        ("prior = { type = 'normal', mean = 1, sd = 0 }", "`a`: the sd of the prior is 0"),
        ("lower = true", "`a`: the lower bound is true"),
    ],
)
def test_what_was_written_is_quoted_as_in_the_file(write, entry, words):
    ((_, message),) = faults_of(write(MINIMAL.replace("a = [0.1, 10]", f"a = {{ {entry} }}")))
    assert words in message


def test_everything_fixed_is_a_fault(write):
    text = re.sub(r"\[[\d., ]+\]", "1", MINIMAL) + "[initial]\nprey = 1\npred = 1\n"
    assert "fixed" in faults_of(write(text))[0][1]


def test_a_missing_file_says_how_to_begin(tmp_path):
    assert "picardfit new" in faults_of(tmp_path / "problem.toml")[0][1]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"a = " + b"[" * 30_000, b"a = " + b"9" * 5000, b"\x00"]
)
def test_bytes_that_are_no_toml(tmp_path, content):
    (tmp_path / "problem.toml").write_bytes(content)
    assert len(faults_of(tmp_path / "problem.toml")) == 1


def test_windows_line_ends_and_byte_order_mark(write):
    path = write(MINIMAL)
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert pf.read_problem(path).measurements == 8


# ---- schema and starters -----------------------------------------------------------------------------------


def schema_faults(value, rule, root):
    """What a validator of JSON Schema would say, as far as our schema uses the language."""
    if "$ref" in rule:
        rule = root["definitions"][rule["$ref"].rsplit("/", 1)[1]]
    if "oneOf" in rule:
        tried = [schema_faults(value, one, root) for one in rule["oneOf"]]
        return [] if any(not one for one in tried) else [f"{value!r}: none of the forms"]
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    wanted = rule.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, kinds[one]) for one in wanted):
        return [f"{value!r} is no {wanted}"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{value!r} is not in {rule['enum']}"]
    if "const" in rule and value != rule["const"]:
        return [f"{value!r} is not {rule['const']}"]
    found = []
    if isinstance(value, dict):
        found += [f"{key} is missing" for key in rule.get("required", []) if key not in value]
        for key, one in value.items():
            inner = rule.get("properties", {}).get(key, rule.get("additionalProperties", {}))
            found += [f"{key} is unknown"] if inner is False else schema_faults(one, inner, root)
    if isinstance(value, list) and "items" in rule:
        found += [fault for one in value for fault in schema_faults(one, rule["items"], root)]
    return found


@pytest.mark.parametrize("starter", list(Starter))
def test_a_starter_is_valid_under_the_schema(starter):
    import tomllib

    text = (files("picardfit") / "examples" / "starters" / starter.value / "problem.toml").read_text(
        encoding="utf-8"
    )
    assert schema_faults(tomllib.loads(text), schema(), schema()) == []
    assert schema_faults({"equations": 1, "dta": "x"}, schema(), schema()) != []


@pytest.mark.parametrize("starter", list(Starter))
def test_a_starter_fits_at_once(starter):
    file = read_problem_file(files("picardfit") / "examples" / "starters" / starter.value)
    fit = pf.fit(file.problem, file.settings.method)
    assert fit.status is pf.Status.CONVERGED
    for name, true in (file.truth or {"parameters": {}})["parameters"].items():
        assert abs(fit.parameters[name] - true) < 4 * fit.standard_errors[name]


def test_every_starter_has_a_name():
    folders = {one.name for one in (files("picardfit") / "examples" / "starters").iterdir() if one.is_dir()}
    assert folders == {one.value for one in Starter}


def test_the_schema_names_the_methods():
    from picardfit.files.sections.settings import METHODS

    assert schema()["properties"]["fit"]["properties"]["method"]["enum"] == list(METHODS)
    assert json.dumps(schema())


# ---- faults that only numbers show -------------------------------------------------------------------------


def test_an_input_that_is_not_finite_has_its_line(write):
    path = write(
        "equations = \"x' = u - k*x\"\ndata = 'd.csv'\nparameters = {k = [0, 5]}\n[inputs]\nu = '1/t'\n",
        d="time,x\n0,1\n1,2\n",
    )
    [(line, message)] = faults_of(path)
    assert line == line_of(path, "u = ")
    assert "`u` (1/t) is infinite at t = 0" in message


def test_a_limit_out_of_range_is_told_once(write):
    [(_, message)] = faults_of(write(f"{MINIMAL}[fit]\nmax_iterations = 0\n"))
    assert message.endswith("write for example max_iterations = 1.")


def test_a_start_for_each_experiment_is_written_by_name(write):
    [(_, message)] = faults_of(write(f"{MINIMAL}[fit]\nstart = {{a = [0.5, 0.6]}}\n"))
    assert '"a[experiment]" = 0.5' in message


def test_parameters_of_a_helper_that_nothing_uses_are_named(write):
    path = write(
        "equations = \"q = c*x\\nx' = -k*x\"\ndata = 'd.csv'\n[parameters]\nk = [0, 5]\nc = [0, 1]\n",
        d="time,x\n0,1\n1,2\n",
    )
    [(line, message)] = faults_of(path)
    assert line == line_of(path, "c = [")
    assert "`c` is used only in `q = ...`" in message


def test_a_column_of_names_may_name_the_experiments(write):
    table = "Pond,time,prey,pred\nNorth,0,10,5\nNorth,1,12,6\nSouth,0,4,3\n"
    ((_, message),) = faults_of(write(MINIMAL, counts=table))
    assert "experiment = 'Pond'" in message
    text = MINIMAL.replace('"counts.csv"', "{ file = 'counts.csv', experiment = 'Pond' }")
    assert pf.read_problem(write(text)).names == ("North", "South")


def test_a_time_column_of_another_name_is_told_how_to_name(write):
    ((_, message),) = faults_of(write(MINIMAL, counts=CSV.replace("time", "When")))
    assert "data = { file = '...', time = '...' }" in message


def test_units_of_strange_names_do_not_hide_other_faults(write):
    path = write(f'{MINIMAL}d = [0, 1]\n[units]\nhare = "kg"\nprey = "g"\nlynx = "kg"\n')
    found = faults_of(path)
    assert [line for line, _ in found] == [line_of(path, one) for one in ("d = [0", "hare =", "lynx =")]


def test_columns_are_found_without_regard_to_case_blanks_and_units(write):
    text = MINIMAL.replace('"counts.csv"', '{ file = "counts.csv", time = "the day" }').replace(
        "pred", "big_fish"
    )
    table = CSV.replace("time,prey,pred", "The Day,Prey (thousands),Big fish")
    (one,) = pf.read_problem(write(text, counts=table)).experiments
    assert one.observables == ("prey", "big_fish")
    np.testing.assert_array_equal(one.observations["big_fish"], [5, 6, 7, 5])


@pytest.mark.parametrize("columns", ["time,PREY,Prey,pred", "time,prey [kg],prey [g],pred"])
def test_columns_that_could_be_either_are_not_guessed(write, columns):
    table = CSV.replace("time,prey,pred", columns).replace(",5\n", ",5,5\n")
    (fault,) = faults(write(MINIMAL, counts=table))
    assert (fault.code, fault.subject) == ("problem.columns_alike", "prey")


def test_a_candidate_measures_observables(write):
    path = write(f"{MINIMAL}[candidates.later]\ntimes = [4, 5]\nobservables = ['Pred']\n")
    ((line, message),) = faults_of(path)
    assert line == line_of(path, "observables")
    assert "Did you mean `pred`?" in message


@pytest.mark.parametrize(
    "name, words", [("counts.csv", "put data = 'counts.csv'"), ("fit.json", "not a problem.toml")]
)
def test_a_file_of_another_kind_is_recognised(write, tmp_path, name, words):
    write(MINIMAL)
    (tmp_path / "fit.json").write_text("{}")
    with pytest.raises(pf.InputError, match=re.escape(words)):
        read_problem_file(tmp_path / name)


def test_a_misspelled_state_is_one_fault_also_in_years(write):
    ((_, message),) = faults_of(write(f"{MINIMAL}[initial]\nprei = 10\n", counts=YEARS))
    assert "Did you mean `prey`?" in message


def test_the_time_is_called_t(write):
    messages = [message for _, message in faults_of(write(MINIMAL.replace("a*prey", "a*prey*time", 1)))]
    assert any("If it is the time, write t." in message for message in messages)


# ---- what a Problem or a fit refuses stands somewhere in the file ------------------------------------------

POND = "[experiments.counts.initial]\nprey = "
PRIOR = '{ bounds = [1, 20], prior = { type = "normal", mean = 9, sd = 1 } }'


@pytest.mark.parametrize(
    "added, line_with, code, key",
    [
        (f"{POND}'2*prey'\n", "2*prey", "problem.initial_circle", "experiments.counts.initial.prey"),
        (f"{POND}{PRIOR}\n", "bounds", "problem.prior_without_noise", "experiments.counts.initial.prey"),
        (f"[initial]\nprey = {PRIOR}\n", "bounds", "problem.prior_without_noise", "initial.prey"),
        ("[fit.start]\na = 99\n", "99", "fit.start_outside", "fit.start.a"),
        ("[fit.start]\na = -1\nb = 0.1\n", "-1", "fit.start_outside", "fit.start.a"),
        ("[fit.start]\n'a[counts]' = 1\n", "a = [", "problem.shared_by_experiment", "parameters.a"),
        (
            "[initial]\nprey = 10\n[fit.start_initial]\npred = 5\nprey = 3\n",
            "[fit.start_initial]",
            "problem.settled_otherwise",
            "fit.start_initial",
        ),
        (
            "[initial]\nprey = [1, 20]\n[fit.start_initial]\npred = 5\nprey = 99\n",
            "prey = 99",
            "fit.start_outside",
            "fit.start_initial.prey",
        ),
    ],
)
def test_what_a_problem_or_a_fit_refuses_has_its_line(write, added, line_with, code, key):
    path = write(MINIMAL + added)
    found = [(one.place.line, one.code, ".".join(map(str, one.place.key))) for one in faults(path)]
    assert found == [(line_of(path, line_with), code, key)]


def test_an_input_of_one_experiment_is_located_there(write):
    equations = MINIMAL.replace("a*prey ", "a*prey*u ", 1)
    path = write(f"inputs = {{ u = 1 }}\n{equations}[experiments.counts]\ninputs.u = '1/(t - 1)'\n")
    ((line, code, key),) = [(one.place.line, one.code, one.place.key) for one in faults(path)]
    assert (line, code) == (line_of(path, "1/(t - 1)"), "model.input_infinite")
    assert key == ("experiments", "counts", "inputs", "u")


def test_an_error_about_a_plan_is_located_in_its_file(write):
    path = write(f"{MINIMAL}[candidates.later]\nobservables = ['prey']\n")
    file = read_problem_file(path)

    def planned():
        with file.locating("candidates", "later"):
            raise pf.InputError("cli.candidate_without_times", "later", key=("candidates", "later"))

    place = complaint(planned).place
    assert (place.file, place.line) == (str(path), line_of(path, "candidates"))


def test_a_title_of_many_lines_is_refused(write):
    (fault,) = faults(write(f'title = "{"x" * 500}"\n{MINIMAL}'))
    assert (fault.code, fault.place.line) == ("files.long_title", 1)
