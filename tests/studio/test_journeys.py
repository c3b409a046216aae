"""Journeys of a person through the studio, in a real browser."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

import picardfit as pf
from studio.browsing import STARTERS, browser, needed, opened, shot, step, studio, type_equations

EQUATIONS = "hare' = birth*hare - hunt*hare*lynx\nlynx' = gain*hare*lynx - death*lynx"


@pytest.fixture(scope="module")
def chromium():
    needed()
    with browser() as made:
        yield made


@pytest.fixture
def running(tmp_path, request):
    """A studio of a folder that holds the starter of the test's marker, or nothing."""
    needed()
    folder = tmp_path / "study"
    marker = request.node.get_closest_marker("starter")
    if marker is not None:
        shutil.copytree(STARTERS / marker.args[0], folder)
    with studio(folder, tmp_path / "log.txt") as made:
        yield made


def fit(page):
    """Fit and wait for the end."""
    step(page, "Fit")
    page.click("#start-fit")
    page.wait_for_selector("#stop-fit")
    page.wait_for_selector("#to-answer", timeout=90_000)


def saved(running) -> pf.Fit:
    """The fit that the studio has saved."""
    return pf.load(running.folder / "results" / "fit.json")


def text_of(running) -> str:
    return (running.folder / "problem.toml").read_text(encoding="utf-8")


def test_from_a_table_and_two_equations_to_a_report(chromium, running):
    page = opened(chromium, running.address)
    shot(page, "0-empty")
    page.set_input_files("input[type=file]", STARTERS / "lotka-volterra" / "lynx_hare.csv")
    page.wait_for_selector("text=21 rows, 3 columns")
    assert page.input_value("select[data-column=year]") == "time"
    assert page.input_value("select[data-column=hare]") == "measured"
    step(page, "Equations")
    type_equations(page, EQUATIONS)
    page.wait_for_selector("text=2 states, 4 parameters")
    shot(page, "2-equations")
    step(page, "Play")
    page.wait_for_selector("input[type=range][data-label=birth]")
    step(page, "Check")
    page.wait_for_selector("text=All 6 unknowns are locally identifiable")
    shot(page, "4-check")
    fit(page)
    shot(page, "5-fit")
    page.click("#to-answer")
    page.wait_for_selector("#headline:has-text('All four parameters are determined')")
    step(page, "Keep")
    with page.expect_download() as download:
        page.click("#download-report")
    report = download.value.path().read_text(encoding="utf-8")
    assert "All four parameters are determined" in report
    assert page.complaints == []


@pytest.mark.starter("lotka-volterra")
def test_the_digits_are_those_of_the_command(chromium, running, tmp_path):
    page = opened(chromium, running.address)
    fit(page)
    page.close()
    here = saved(running)
    command = [
        sys.executable,
        "-m",
        "picardfit",
        "fit",
        str(running.folder),
        "--out",
        str(tmp_path / "again"),
        "-q",
    ]
    subprocess.run(command, check=True)
    there = pf.load(tmp_path / "again" / "fit.json")
    assert here.parameters == there.parameters
    assert here.initial_states == there.initial_states
    assert here.standard_errors == there.standard_errors
    assert here.loss == there.loss


@pytest.mark.starter("lotka-volterra")
def test_a_wrong_equation_a_wrong_column_and_a_crash_are_mended(chromium, running):
    page = opened(chromium, running.address)
    step(page, "Equations")
    wrong = EQUATIONS.replace("death*lynx", "death*lynx)")
    type_equations(page, wrong)
    page.wait_for_selector(".line-fault")
    shot(page, "2-wrong")
    assert "death*lynx)" in text_of(running)  # nothing that was typed is lost
    step(page, "Fit")
    page.click("main button:has-text('Go to equations')")
    page.wait_for_selector(".cm-content")
    type_equations(page, EQUATIONS)
    page.wait_for_selector(".line-fault", state="detached")
    assert 'unit = "1/year"' in text_of(running)  # nor what the file said beside it
    step(page, "Data")
    page.select_option("select[data-column=year]", "measured")
    page.wait_for_selector(".say.bad")
    page.select_option("select[data-column=year]", "time")
    page.wait_for_selector(".say.bad", state="detached")
    step(page, "Fit")
    page.click("#start-fit")
    page.wait_for_selector("#stop-fit")
    os.kill(worker_of(running.process.pid), signal.SIGKILL)
    page.wait_for_selector(".say.bad:has-text('nothing of the study is lost')")
    shot(page, "5-died")
    fit(page)
    assert saved(running).success
    assert page.complaints == []


def worker_of(parent: int) -> int:
    """The process that fits."""
    for _ in range(100):
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True
        )
        found = [line.split()[0] for line in listed.stdout.splitlines() if "studio.worker" in line]
        if found:
            return int(found[0])
    raise AssertionError("no process of a fit")


def dosed_table() -> str:
    """Four patients with other doses: conc = dose/10 * exp(-0.5 t), measured after the dose at time 0."""
    rows = []
    for k, dose in enumerate((50, 100, 150, 200), 1):
        rows.append(f"patient {k},0,,{dose}")
        values = (dose / 10 * 2.718281828 ** (-0.5 * t) * (1 + 0.02 * (-1) ** t) for t in (1, 2, 3, 4, 6))
        rows += [f"patient {k},{t},{value:.4f}," for t, value in zip((1, 2, 3, 4, 6), values, strict=True)]
    return "experiment,time,conc,dose\n" + "\n".join(rows) + "\n"


def test_four_experiments_with_doses(chromium, running, tmp_path):
    table = tmp_path / "doses.csv"
    table.write_text(dosed_table(), encoding="utf-8")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file]", table)
    page.wait_for_selector("text=24 rows, 4 columns")
    step(page, "Equations")
    type_equations(page, "body' = -out*body")
    page.wait_for_selector("[aria-label='Formula of conc']")
    page.fill("[aria-label='Formula of conc']", "body/volume")
    page.press("[aria-label='Formula of conc']", "Enter")
    page.wait_for_selector("text=1 state, 2 parameters")
    step(page, "Data")
    page.select_option("select[data-column=dose]", "dose")
    page.wait_for_function("document.querySelector('select[data-column=dose]').value === 'dose'")
    step(page, "Play")
    page.wait_for_selector("#main .working", state="detached")
    page.fill("[aria-label='Fixed value of body']", "0")
    page.press("[aria-label='Fixed value of body']", "Enter")
    page.wait_for_selector("text=2 unknowns")
    fit(page)
    assert saved(running).parameters["out"] == pytest.approx(0.5, rel=0.05)
    assert saved(running).parameters["volume"] == pytest.approx(10, rel=0.05)
    assert [one.doses[0].amounts.tolist() for one in saved(running).problem.experiments] == [
        [50],
        [100],
        [150],
        [200],
    ]
    assert page.complaints == []


HOLD = """
const send = WebSocket.prototype.send;
const waiting = [];
window.hold = false;
WebSocket.prototype.send = function (words) { window.hold ? waiting.push([this, words]) : send.call(this, words); };
window.release = () => { window.hold = false; waiting.forEach(([socket, words]) => send.call(socket, words)); };
"""  # what the page sends waits, as on a busy machine


@pytest.mark.starter("lotka-volterra")
def test_what_is_typed_while_the_step_is_drawn_anew_is_kept(chromium, running):
    """In a second tab the study changes, so that the fields of the first are drawn anew under its hands."""
    context = chromium.new_context()
    context.add_init_script(HOLD)
    page, other = opened(context, running.address), opened(context, running.address)
    for one in (page, other):
        step(one, "Play")
        one.wait_for_selector("[aria-label='Upper bound of birth']")
    bound, scale = "[aria-label='Upper bound of birth']", "[aria-label='Scale of hunt']"

    def change(unit: str) -> None:
        page.evaluate("document.querySelector('[aria-label=\"Upper bound of birth\"]').old = true")
        other.fill("[aria-label='Unit of death']", unit)
        other.press("[aria-label='Unit of death']", "Enter")
        page.wait_for_function(
            "document.querySelector('[aria-label=\"Upper bound of birth\"]')?.old !== true"
        )

    page.click(bound)
    page.fill(bound, "7.")  # half typed: it stays, and so do focus and caret
    change("1/week")
    assert page.input_value(bound) == "7."
    page.keyboard.type("25")
    page.evaluate("window.hold = true")
    page.keyboard.press("Enter")
    page.select_option(scale, "linear" if page.input_value(scale) == "log" else "log")
    chosen = page.input_value(scale)
    change("1/month")  # the fields that were left are gone before the studio hears of it
    page.evaluate("window.release()")
    other.wait_for_function(
        f"document.querySelector(\"{scale}\").value === '{chosen}'"
        f" && document.querySelector(\"{bound}\").value === '7.25'"
    )
    assert (page.input_value(bound), page.input_value(scale)) == ("7.25", chosen)
    written = pf.read_problem(running.folder).parameters
    assert written["birth"].upper == 7.25
    assert written["hunt"].log == (chosen == "log")
    page.click("#undo")  # each was taken once
    page.click("#undo")
    other.wait_for_function(f"document.querySelector(\"{bound}\").value !== '7.25'")
    assert "7.25" not in text_of(running)
    assert page.complaints == other.complaints == []


@pytest.mark.starter("lotka-volterra")
def test_a_cell_that_is_being_typed_outlives_a_change_of_a_role(chromium, running):
    page = opened(chromium, running.address)
    step(page, "Data")
    page.dblclick(".ag-row[row-index='2'] [col-id='c1']")
    page.keyboard.press("Control+a")
    page.keyboard.type("44.")
    other = opened(page.context, running.address)
    step(other, "Data")
    other.select_option("select[data-column=lynx]", "ignored")
    page.wait_for_function("document.querySelector('select[data-column=lynx]').value === 'ignored'")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    other.wait_for_selector(".ag-row[row-index='2'] [col-id='c1']:has-text('44.5')")
    assert "44.5" in (running.folder / "lynx_hare.csv").read_text(encoding="utf-8")
    assert page.complaints == []


SBML = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="decay"><listOfCompartments><compartment id="cell" size="1" constant="true" spatialDimensions="3"/>
</listOfCompartments>
<listOfSpecies><species id="x" compartment="cell" initialConcentration="10" hasOnlySubstanceUnits="false"
 boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfParameters><parameter id="k" value="0.3" constant="true"/></listOfParameters>
<listOfReactions><reaction id="r" reversible="false" fast="false"><listOfReactants><speciesReference species="x"
 stoichiometry="1" constant="true"/></listOfReactants><kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML">
<apply><times/><ci>cell</ci><ci>k</ci><ci>x</ci></apply></math></kineticLaw></reaction></listOfReactions></model></sbml>
"""


def test_an_sbml_model(chromium, running, tmp_path):
    pytest.importorskip("libsbml")
    model, table = tmp_path / "decay.xml", tmp_path / "x.csv"
    model.write_text(SBML, encoding="utf-8")
    table.write_text("time,x\n" + "".join(f"{t},{10 * 0.6**t:.4f}\n" for t in range(8)), encoding="utf-8")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file]", table)
    page.wait_for_selector("text=8 rows, 2 columns")
    step(page, "Equations")
    page.set_input_files("input[type=file]", model)
    page.wait_for_selector("text=1 state, 1 parameter")
    step(page, "Play")
    page.fill("[aria-label='Fixed value of k']", "")
    page.press("[aria-label='Fixed value of k']", "Enter")
    page.fill("[aria-label='Lower bound of k']", "0.01")
    page.press("[aria-label='Lower bound of k']", "Enter")
    page.fill("[aria-label='Upper bound of k']", "5")
    page.press("[aria-label='Upper bound of k']", "Enter")
    page.wait_for_selector("text=1 unknown")
    fit(page)
    assert saved(running).parameters["k"] == pytest.approx(0.5108, rel=1e-3)
    assert page.complaints == []


@pytest.mark.starter("lotka-volterra")
def test_stop_and_go_on_with_a_second_tab(chromium, running, tmp_path):
    path = running.folder / "problem.toml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("seed = 0", "starts = 400\nseed = 0"), encoding="utf-8"
    )
    page = opened(chromium, running.address)
    step(page, "Fit")
    page.click("#start-fit")
    page.wait_for_selector("#fit-words:has-text('search')")
    other = opened(page.context, running.address)
    step(other, "Fit")
    other.wait_for_selector("#stop-fit")  # a second tab shows the same fit
    shot(other, "5-running")
    other.click("#stop-fit")
    page.wait_for_selector("text=Stopped; the best so far is kept.")
    assert (running.folder / "results" / "fit.json").is_file()
    page.click("#resume-fit")
    page.wait_for_selector("text=The fit has ended.", timeout=120_000)
    assert len(saved(running).searches) == 400
    assert page.complaints == []
