"""Expression -> formula text, in the language that grammar.py reads."""

from __future__ import annotations

import sympy
from sympy.printing.str import StrPrinter

from picardfit.formulas.functions import NAMES


class _Printer(StrPrinter):
    """Text that `parse` reads back to the same expression."""

    def _print_Function(self, expr: sympy.Basic) -> str:
        name = NAMES.get(expr.func, expr.func.__name__)
        return f"{name}({', '.join(self._print(a) for a in expr.args)})"

    _print_Abs = _print_Function

    def _print_Float(self, expr: sympy.Basic) -> str:
        return repr(float(expr))

    def _print_Relational(self, expr: sympy.Basic) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sympy.Basic) -> str:
        return f"({' and '.join(sorted(self._print(a) for a in expr.args))})"

    def _print_Or(self, expr: sympy.Basic) -> str:
        return f"({' or '.join(sorted(self._print(a) for a in expr.args))})"


def to_text(expr: sympy.Expr) -> str:
    """The formula of an expression, in the language of `parse`."""
    return str(_Printer().doprint(expr))
