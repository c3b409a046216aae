"""Tables as a person handles them: paste, drop, spreadsheets, several of them; and what is known beforehand."""

from __future__ import annotations

import tomllib

import pytest

from studio.browsing import browser, needed, opened, shot, step, studio, type_equations

CELLS = "time\tprey\tpredator\n0\t30\t4\n1\t47.2\t6.1\n2\t70.2\t9.8\n3\t77.4\t35.2\n"
DROP = """
([name, words]) => {
  const data = new DataTransfer();
  data.items.add(new File([words], name, { type: "text/csv" }));
  const area = document.querySelector(".drop");
  for (const kind of ["dragover", "drop"]) {
    area.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}
"""


@pytest.fixture(scope="module")
def chromium():
    needed()
    with browser() as made:
        yield made


@pytest.fixture
def running(tmp_path):
    with studio(tmp_path / "study", tmp_path / "log.txt") as made:
        yield made


def problem_of(running):
    return tomllib.loads((running.folder / "problem.toml").read_text(encoding="utf-8"))


def test_cells_of_a_spreadsheet_are_pasted(chromium, running):
    page = opened(chromium, running.address)
    page.click("#paste")
    page.click("#paste-cells")
    page.keyboard.insert_text("no table at all")
    page.click("#paste-take")
    page.wait_for_selector(".q-dialog .say.bad")
    assert page.input_value("#paste-cells") == "no table at all"  # nothing that was typed is lost
    page.fill("#paste-cells", CELLS)
    page.click("#paste-take")
    page.wait_for_selector("#data-count:text-is('4 rows, 3 columns')")
    assert page.input_value("select[data-column=predator]") == "measured"
    assert (running.folder / "pasted.tsv").read_text(encoding="utf-8") == CELLS
    assert page.complaints == []


def test_a_file_is_dropped_and_a_cell_is_edited(chromium, running):
    page = opened(chromium, running.address)
    page.wait_for_selector(".drop")
    page.evaluate(DROP, ["ponds.csv", CELLS.replace("\t", ",")])
    page.wait_for_selector("#data-count:text-is('4 rows, 3 columns')")
    page.dblclick(".ag-row[row-id='2'] [col-id=c1]")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("48.5")
    page.keyboard.press("Enter")
    page.wait_for_selector("#undo[title*='row 2 of prey']")
    assert "1,48.5,6.1" in (running.folder / "ponds.csv").read_text(encoding="utf-8")
    page.click("#undo")
    page.wait_for_selector("#redo[title*='row 2 of prey']")
    assert "1,47.2,6.1" in (running.folder / "ponds.csv").read_text(encoding="utf-8")
    page.wait_for_selector(".ag-row[row-id='2'] [col-id=c1]:text-is('47.2')")
    page.click(".ag-row[row-id='4'] [col-id=c1]")
    page.click("#remove-row")
    page.wait_for_selector("#data-count:text-is('3 rows, 3 columns')")
    assert page.complaints == []


def test_a_spreadsheet_becomes_a_text_table_when_it_is_edited(chromium, running, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row, line in enumerate(CELLS.splitlines(), 1):
        for column, cell in enumerate(line.split("\t"), 1):
            book.active.cell(row, column, cell if row == 1 else float(cell))
    book.save(tmp_path / "ponds.xlsx")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file] >> nth=0", tmp_path / "ponds.xlsx")
    page.wait_for_selector("#data-count:text-is('4 rows, 3 columns')")
    assert problem_of(running)["data"] == "ponds.xlsx"
    page.dblclick(".ag-row[row-id='1'] [col-id=c2]")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("4.5")
    page.keyboard.press("Enter")
    page.wait_for_selector("strong:text-is('ponds.csv')")
    assert problem_of(running)["data"] == "ponds.csv"
    assert "0,30,4.5" in (running.folder / "ponds.csv").read_text(encoding="utf-8")
    assert page.complaints == []


def test_two_tables_noise_of_each_observable_and_a_derived_quantity(chromium, running, tmp_path):
    for name, shift in (("one", 0), ("two", 1)):
        rows = "".join(f"{t},{20 + 5 * (t % 3) + shift},{4 + t % 4}\n" for t in range(8))
        (tmp_path / f"{name}.csv").write_text(f"time,prey,predator\n{rows}", encoding="utf-8")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file] >> nth=0", tmp_path / "one.csv")
    page.wait_for_selector("#data-count:text-is('8 rows, 3 columns')")
    page.set_input_files("input[type=file] >> nth=1", tmp_path / "two.csv")  # what "Add a file" opens
    page.click("button:text-is('two.csv')")
    page.wait_for_selector("strong:text-is('two.csv')")
    page.select_option("select[data-column=predator]", "ignored")
    page.wait_for_selector("select[data-column=predator].role-ignored")
    page.dblclick(".ag-row[row-id='1'] [col-id=c1]")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("99")
    page.keyboard.press("Enter")
    page.wait_for_selector("#undo[title*='row 1 of prey']")
    assert "0,99,4" in (running.folder / "two.csv").read_text(encoding="utf-8")
    assert problem_of(running)["data"] == [
        "one.csv",
        {"file": "two.csv", "time": "time", "observables": ["prey"]},
    ]
    shot(page, "1-two-tables")
    step(page, "Equations")
    type_equations(page, "prey' = a*prey - b*prey*predator\npredator' = c*prey*predator - d*predator")
    page.wait_for_selector("text=2 states, 4 parameters")
    step(page, "Play")
    page.select_option("[aria-label='Kind of noise']", "normal")
    page.wait_for_selector("[aria-label='additive of the noise']")
    page.select_option("[aria-label='Whose noise']", "each")
    page.select_option("[aria-label='Kind of noise of predator']", "log-normal")
    page.wait_for_selector("[aria-label='sigma of the noise of predator']")
    page.fill("[aria-label='additive of the noise of prey']", "0.5")
    page.keyboard.press("Tab")
    page.wait_for_selector("#undo[title*='noise of prey']")
    page.fill("[aria-label='proportional of the noise of prey']", "0.1")
    page.keyboard.press("Tab")
    page.fill("[aria-label='Name of a new derived quantity']", "ratio")
    page.keyboard.press("Tab")
    page.fill("[aria-label='Formula of a new derived quantity']", "a/d")
    page.keyboard.press("Tab")
    page.wait_for_selector("[aria-label='Formula of ratio']")
    page.select_option("[aria-label='Prior of a']", "normal")
    page.fill("[aria-label='mean of the prior of a']", "0.4")
    page.keyboard.press("Tab")
    page.wait_for_selector("#undo[title*='prior of a']")
    page.fill("[aria-label='sd of the prior of a']", "0.2")
    page.keyboard.press("Tab")
    for _ in range(100):
        if problem_of(running)["parameters"]["a"]["prior"].get("sd") == 0.2:
            break
        page.wait_for_timeout(50)
    given = problem_of(running)
    assert given["noise"]["prey"] == {"type": "normal", "additive": 0.5, "proportional": 0.1}
    assert given["noise"]["predator"] == {"type": "log-normal", "sigma": [0.001, 10]}
    assert given["derived"] == {"ratio": "a/d"}
    assert given["parameters"]["a"]["prior"] == {"type": "normal", "mean": 0.4, "sd": 0.2}
    assert page.complaints == []


def test_doses_ask_for_their_state_and_the_studio_is_stopped_on_the_page(chromium, running, tmp_path):
    table = tmp_path / "dose.csv"
    table.write_text("time,conc,dose\n0,,100\n1,5.1,\n2,3.2,\n4,1.1,\n", encoding="utf-8")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file] >> nth=0", table)
    page.wait_for_selector("#data-count:text-is('4 rows, 3 columns')")
    step(page, "Equations")
    type_equations(page, "gut' = -ka*gut\nbody' = ka*gut - out*body")
    page.wait_for_selector("[aria-label='Formula of conc']")
    step(page, "Data")
    page.select_option("select[data-column=dose]", "dose")
    page.wait_for_selector(".q-dialog button:text-is('gut')")
    page.keyboard.press("Escape")
    page.wait_for_function("document.querySelector('select[data-column=dose]').value === 'measured'")
    page.select_option("select[data-column=dose]", "dose")
    page.click(".q-dialog button:text-is('gut')")
    page.wait_for_selector("select[data-column=dose].role-dose")
    assert problem_of(running)["data"]["dose"] == {"column": "dose", "into": "gut"}
    page.click("#stop-studio")
    page.click("#really-stop")
    page.wait_for_selector("text=The studio has stopped")
    assert running.process.wait(20) == 0


def test_what_is_being_typed_outlives_a_change_elsewhere(chromium, running, tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("time,x\n0,5\n1,3\n2,2\n", encoding="utf-8")
    page = opened(chromium, running.address)
    page.set_input_files("input[type=file] >> nth=0", table)
    page.wait_for_selector("#data-count:text-is('3 rows, 2 columns')")
    step(page, "Equations")
    type_equations(page, "x' = -k*x")
    page.wait_for_selector("text=1 state, 1 parameter")
    step(page, "Play")
    field = page.wait_for_selector("[aria-label='Upper bound of k']")
    page.click("[aria-label='Upper bound of k']", click_count=3)
    page.keyboard.type("7.5")
    other = opened(page.context, running.address)
    step(other, "Keep")
    other.fill("#problem-text", (running.folder / "problem.toml").read_text(encoding="utf-8") + "# mine\n")
    other.click("#save-text")
    page.wait_for_function("(one) => !one.isConnected", arg=field)  # the table was drawn again
    page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Upper bound of k'")
    assert page.input_value("[aria-label='Upper bound of k']") == "7.5"
    page.keyboard.press("Tab")
    page.wait_for_selector("#undo[title*='upper of k']")
    assert problem_of(running)["parameters"]["k"]["upper"] == 7.5
    assert "# mine" in (running.folder / "problem.toml").read_text(encoding="utf-8")
