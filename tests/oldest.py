"""Print the oldest versions that pyproject.toml declares, as constraints for pip: `make test-oldest` installs them."""

import re
import tomllib
from pathlib import Path

EXTRAS = ("test", "dask", "petab", "notebook")


def oldest(project: dict) -> list[str]:
    """`name==version` of every requirement `name>=version` of the package and of these extras."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    found = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", one) for one in wanted]
    return sorted({f"{one[1]}=={one[2]}" for one in found if one})


if __name__ == "__main__":
    content = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(oldest(tomllib.loads(content)["project"])))
