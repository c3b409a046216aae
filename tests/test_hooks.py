"""Functions that methods of lower rooms hand on to."""

import subprocess
import sys

import pytest

from picardfit.hooks import handed_on


def test_a_registered_function_is_found():
    from picardfit.inference.population.at_values import marginal_objective

    assert handed_on("marginal_objective") is marginal_objective


def test_an_unregistered_name_is_an_error():
    with pytest.raises(KeyError):
        handed_on("nothing")


def test_importing_the_package_imports_no_room():
    program = "import sys, picardfit; print(sorted(n for n in sys.modules if n.startswith('picardfit.')))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['picardfit.hooks']"
