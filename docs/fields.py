"""Docstrings on the reference page: a line that begins with the name of a field or argument becomes a list item."""

import re

import griffe

FIELD = re.compile(r"^(?=`\w+`(?:, `\w+`)*: )", re.MULTILINE)


class Fields(griffe.Extension):
    """Called for everything that has a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            first, *rest = FIELD.split(obj.docstring.value)
            obj.docstring.value = "\n- ".join([f"{first}\n" if rest else first, *rest])
