"""Four people from raw tables to a report, a figure, a prediction and an exported model: benchmarks/roles.py."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import picardfit as pf

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
role_tables = pytest.importorskip("role_tables")
roles = pytest.importorskip("roles")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*roles.ROLES, *roles.SECOND])
def test_a_role_reaches_its_aims(tmp_path, name):
    played = roles.play((roles.ROLES | roles.SECOND)[name], tmp_path, seed=2)
    assert list(roles.failures(played)) == []


@pytest.mark.parametrize("make", [role_tables.lakes, role_tables.drug, role_tables.motors, roles.plate])
def test_raw_tables_lead_to_the_truth(tmp_path, make):
    study = make(tmp_path, np.random.default_rng(3))
    fit = pf.fit(pf.read_problem(tmp_path), progress=False)
    assert fit.success
    assert max(map(abs, roles.deviations(fit, study).values())) < 4
