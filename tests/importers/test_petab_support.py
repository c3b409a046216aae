"""The table of what is supported, in docs/howto/petab.md, says what the published suites show."""

import os
import re
import warnings
from pathlib import Path

import pytest

import picardfit as pf

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

import yaml

from picardfit.importers import petab

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "petab.md"
ROW = re.compile(r"\| (?P<feature>[^|]+) \| (?P<version>v[12]) (?P<cases>[\d, ]+) \| (?P<ours>yes|no) \|")
ROWS = [match.groupdict() for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def suite(version: str) -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared" / "petab"
    folder = Path(os.environ.get("PICARDFIT_PETAB", beside)) / f"petab_test_suite_{version}.0.0_sbml"
    if not folder.is_dir():
        pytest.skip("the published PEtab suites (shared/petab) are not beside this repository")
    return folder


def test_the_table_is_found():
    assert len(ROWS) == 17


@pytest.mark.parametrize("row", ROWS, ids=[row["feature"] for row in ROWS])
def test_a_row(row):
    folder = suite(row["version"])
    for case in re.findall(r"\d{4}", row["cases"]):
        path = folder / case / f"_{case}.yaml"
        if row["ours"] == "no":
            with pytest.raises(pf.InputError):
                petab.read(path)
            continue
        solution = yaml.safe_load((folder / case / f"_{case}_solution.yaml").read_text())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = petab.read(path)
        assert -problem.nllh(problem.nominal) == pytest.approx(solution["llh"], abs=solution["tol_llh"])
