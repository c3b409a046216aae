"""Export as a Stan program with its data: the equations, the unknowns within their bounds, and the noise.

All experiments are one list of pieces between jumps, which the program solves one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import e as EULER
from math import inf, isfinite, log
from pathlib import Path

import sympy

from picardfit.errors import InputError
from picardfit.exporters.content import Content, refuse_events
from picardfit.exporters.languages import STAN
from picardfit.exporters.names import Names, Spelling, plain_text, renamed
from picardfit.exporters.python import environment
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import parse
from picardfit.model import priors
from picardfit.model.densities import COUNTS, Shape
from picardfit.model.inputs import Formula
from picardfit.model.parameters import Parameter
from picardfit.model.priors import Prior
from picardfit.model.scatter import Column
from picardfit.problem.rest import Rest

KEYWORDS = """
    array break cholesky_factor_corr cholesky_factor_cov complex complex_matrix complex_row_vector
    complex_vector continue corr_matrix cov_matrix data else false for functions generated if in int jacobian
    lower matrix model multiplier offset ordered parameters positive_ordered print profile quantities real
    reject return row_vector simplex target transformed true tuple unit_vector upper vector void while
"""
OWN = """
    absolute_tolerance at_sample begins_at censored course derivative earlier ends_at expected factor
    factor_residual factor_square from_stop input_begin input_slope inputs is_first jump_add jump_keep level
    levels max_steps measured measured_count measured_lower measured_trials measured_upper n_pieces n_samples
    n_stops n_values now number observables output pars piece piece_course piece_ends relative_tolerance
    residual rhs sample_course sample_input sampled_at since start_state state stop to_stop value_output
    value_sample
"""
SPELLING = Spelling(frozenset((*KEYWORDS.split(), *OWN.split())))
DISTRIBUTIONS = {Shape.NORMAL: "normal", Shape.STUDENT: "student_t", Shape.LAPLACE: "double_exponential"}


def stan_program(said: Content, path: Path, version: str) -> str:
    """The program."""
    refuse_events(said, "Stan")
    return Program(said).text(path, version)


class Program:
    """The parts of a program, and the names in it."""

    def __init__(self, said: Content) -> None:
        self.said, self.problem = said, said.fit.problem
        self.layout, self.scatter = self.problem.layout, self.problem.scatter
        for e, one in zip(said.chosen, said.courses, strict=True):
            if any(isinstance(spec, Rest) for spec in self.problem.initial_by_experiment[e].values()):
                raise InputError("exporters.stan_rest", one.name)
        self.names = Names(SPELLING)
        self.names.add_all(dict.fromkeys((*self.layout.names, *said.states, *said.inputs, *said.helpers)))
        self.initial_names = {state: self.names.add(f"{state}_initial") for state in said.states}
        self.sigma = self.names.add("sigma") if self.scatter is None else ""

    def text(self, path: Path, version: str) -> str:
        said, write = self.said, self.write
        outputs = {k: f"expected[{k + 1}]" for k in range(len(said.outputs))}
        own = {f"observable {k}": text for k, text in outputs.items()}
        levels = () if self.scatter is None else self.scatter.levels
        changed = renamed(
            {n: self.names.given[n] for n in self.names.given if n not in self.initial_names.values()}
        )
        return (
            environment()
            .get_template("stan.jinja")
            .render(
                version=version,
                warning=said.warning,
                data_file=plain_text(path.with_suffix(".data.json").name),
                init_file=plain_text(path.with_suffix(".init.json").name),
                notes=[f"`{plain_text(here)}` is called {there} here." for here, there in changed.items()],
                states=said.states,
                n_inputs=max(len(said.inputs), 1),
                n_parameters=max(len(self.layout.names), 1),
                unpacked=self.unpacked(said.rates.values(), said.helpers, pieces=True),
                rates=[write(rate) for rate in said.rates.values()],
                unpacked_outputs=self.unpacked(said.outputs.values()),
                outputs=[write(e) for e in said.outputs.values()],
                output_names=list(map(plain_text, said.outputs)),
                unpacked_levels=self.unpacked(levels),
                levels=[STAN.write(e, {**self.names.given, **own}) for e in levels],
                increments=bool(said.increments),
                counts=self.counts,
                censored=self.censored,
                common=self.scatter is not None and self.scatter.common,
                parameters=list(self.declarations()),
                priors=list(self.priors()),
                likelihood=list(self.likelihood()),
                experiments=[self.experiment(k) for k in range(len(said.courses))],
            )
        )

    def write(self, expr: sympy.Basic) -> str:
        return STAN.write(expr, self.names.given)

    @property
    def columns(self) -> Sequence[Column]:
        return [Column()] * len(self.said.outputs) if self.scatter is None else self.scatter.columns

    @property
    def counts(self) -> bool:
        return any(column.shape in COUNTS for column in self.columns)

    @property
    def censored(self) -> bool:
        return self.problem.samples.limits is not None

    # ---- functions

    def unpacked(
        self,
        expressions: Iterable[sympy.Basic],
        helpers: Mapping[str, sympy.Expr] | None = None,
        pieces: bool = False,
    ) -> list[str]:
        """Lines that name the states, parameters and inputs which the expressions use, and define the helpers."""
        used = set().union(*map(names, (*expressions, *(helpers or {}).values())))
        lines = []
        for group, letter in ((self.said.states, "state"), (self.layout.names, "pars")):
            lines += [
                f"real {self.names.given[n]} = {letter}[{k}];" for k, n in enumerate(group, 1) if n in used
            ]
        for k, name in enumerate(self.said.inputs, 1):
            if name in used:
                value = (
                    f"input_begin[{k}] + input_slope[{k}] * (t - piece_ends[1])" if pieces else f"inputs[{k}]"
                )
                lines += [
                    f"real {self.names.given[name]} = {value};",
                    *(self.formulas(name) if pieces else []),
                ]
        lines += [f"real {self.names.given[n]} = {self.write(e)};" for n, e in (helpers or {}).items()]
        return lines

    def formulas(self, name: str) -> list[str]:
        """Lines that set an input in the experiments where it is a formula of time."""
        found: dict[str, list[int]] = {}
        for e, one in enumerate(self.said.courses, 1):
            source = one.inputs[name]
            if isinstance(source, Formula):
                found.setdefault(source.text, []).append(e)
        lines = []
        for text, where in found.items():
            here = " || ".join(f"course == {e}" for e in where)
            lines.append(f"if ({here}) {self.names.given[name]} = {STAN.write(parse(text), {})};")
        return lines

    # ---- unknowns

    def unknown_initial(self, state: str) -> dict[int, Parameter]:
        """Experiment, counted from 0 -> what is known of an initial state that is estimated there."""
        specs = [self.problem.initial_by_experiment[e][state] for e in self.said.chosen]
        return {k: spec for k, spec in enumerate(specs) if isinstance(spec, Parameter)}

    def declarations(self) -> Iterable[str]:
        for name, one in self.problem.parameters.items():
            if one.fixed is None:
                count = len(self.said.courses) if one.local else 0
                yield _declared(self.names.given[name], [one.bounds] * max(count, 1), count > 0, one.unit)
        for state, there in self.initial_names.items():
            unknown = self.unknown_initial(state)
            if unknown:
                yield _declared(there, [one.bounds for one in unknown.values()], True)
        if self.sigma:
            yield f"real<lower=0> {self.sigma};  // standard deviation of the measurements"

    def priors(self) -> Iterable[str]:
        """Bounds are uniform priors, of the logarithm where a parameter has a logarithmic scale."""
        for name, one in self.problem.parameters.items():
            if one.fixed is None:
                yield from _prior(self.names.given[name], one)
        for state, there in self.initial_names.items():
            for position, one in enumerate(self.unknown_initial(state).values(), 1):
                yield from _prior(f"{there}[{position}]", one)

    def experiment(self, k: int) -> dict[str, object]:
        """The parameters and the initial states of an experiment, as expressions."""
        e, one = self.said.chosen[k], self.said.courses[k]
        texts = {}
        for name, parameter in self.problem.parameters.items():
            there = self.names.given[name]
            fixed = "" if parameter.fixed is None else STAN.number(parameter.fixed)
            texts[name] = fixed or (f"{there}[{k + 1}]" if parameter.local else there)
        covariates = {
            n: STAN.number(self.problem.experiments[e].covariates[n])
            for n in self.problem.model.covariates
            if n in self.problem.experiments[e].covariates
        }
        initial, specs = {}, self.problem.initial_by_experiment[e]
        for state, spec in specs.items():
            if isinstance(spec, Parameter):
                position = list(self.unknown_initial(state)).index(k) + 1
                initial[state] = f"{self.initial_names[state]}[{position}]"
            elif not isinstance(spec, sympy.Expr | Rest):  # `__init__` refuses the latter
                initial[state] = STAN.number(spec)
        given = {**texts, **covariates, **initial}
        formulas = ((n, s) for n, s in specs.items() if isinstance(s, sympy.Expr))
        initial |= {state: STAN.write(spec, given) for state, spec in formulas}
        ordered = [texts[name] for name in self.layout.names] or ["0.0"]
        return {
            "name": plain_text(one.name),
            "parameters": ordered,
            "initial": [initial[state] for state in specs],
        }

    # ---- noise

    def likelihood(self) -> Iterable[str]:
        if self.scatter is None:
            yield from self.density("expected[at_sample, output]", self.sigma, Column())
            return
        extra = len(self.scatter.levels) > len(self.columns)
        for k, column in enumerate(self.columns, 1):
            degrees = f"level[at_sample, {len(self.columns) + k}]" if extra else ""
            yield f"if (output == {k}) {{"
            yield from (
                f"  {line}"
                for line in self.density(
                    f"expected[at_sample, {k}]", f"level[at_sample, {k}]", column, degrees
                )
            )
            yield "}"

    def density(self, mean: str, level: str, column: Column, degrees: str = "") -> Iterable[str]:
        """Lines that add the log density of value n."""
        if column.shape in COUNTS:
            yield _count(column.shape, mean, level)
            return
        unit = "" if column.base in (None, EULER) else f" / {log(column.base)!r}"

        def scaled(text: str) -> str:
            return text if column.base is None else f"log({text}){unit}"

        name = DISTRIBUTIONS[column.shape]
        nu = degrees if column.degrees is None else repr(column.degrees)
        arguments = ", ".join([*([nu] if column.shape is Shape.STUDENT else []), scaled(mean), level])
        jacobian = "" if column.base is None else " - log(measured[number])"
        value = f"target += {name}_lpdf({scaled('measured[number]')} | {arguments}){jacobian};"
        if not self.censored:
            yield value
            return
        below, above = (
            f"{name}_lcdf({scaled(f'measured_{end}[number]')} | {arguments})" for end in ("upper", "lower")
        )
        yield f"if (censored[number] == 0) {value}"
        yield f"else if (censored[number] == 1) target += {below};"
        yield f"else if (censored[number] == 2) target += {above.replace('_lcdf', '_lccdf')};"
        yield f"else target += log_diff_exp({below}, {above});"


def _count(shape: Shape, mean: str, level: str) -> str:
    least = f"fmax({mean}, 1e-12)"  # a solution may be a rounding error below 0
    if shape is Shape.POISSON:
        return f"target += poisson_lpmf(measured_count[number] | {least});"
    if shape is Shape.BINOMIAL:
        return (
            f"target += binomial_lpmf(measured_count[number] | measured_trials[number], fmin({least}, 1.0));"
        )
    return f"target += neg_binomial_2_lpmf(measured_count[number] | {least}, {level});"


def _declared(there: str, bounds: Sequence[tuple[float, float]], several: bool, unit: str = "") -> str:
    """The declaration of a parameter, or of a vector of them with bounds for each."""
    parts = []
    for word, ends in (("lower", [low for low, _ in bounds]), ("upper", [high for _, high in bounds])):
        if len(set(ends)) > 1:
            parts.append(f"{word}=[{', '.join(map(_bound, ends))}]'")
        elif isfinite(ends[0]):
            parts.append(f"{word}={_bound(ends[0])}")
    within = f"<{', '.join(parts)}>" if parts else ""
    comment = f"  // {plain_text(unit)}" if unit else ""
    return (
        f"vector{within}[{len(bounds)}] {there};{comment}" if several else f"real{within} {there};{comment}"
    )


def _bound(value: float) -> str:
    return {inf: "positive_infinity()", -inf: "negative_infinity()"}.get(value) or STAN.number(value)


def _prior(there: str, one: Parameter) -> Iterable[str]:
    """The prior of a parameter. That of a logarithm becomes one of the value by - log(value)."""
    if one.prior is None:
        if one.log:
            yield f"target += -sum(log({there}));" if one.local else f"target += -log({there});"
        return
    text, natural = prior_density(there, one.prior)
    if text:
        yield f"target += {text};"
    if not natural:
        yield f"target += -sum(log({there}));" if one.local else f"target += -log({there});"


def prior_density(there: str, prior: Prior) -> tuple[str, bool]:
    """The log density of a prior, and whether it is one of the value itself."""
    value = there if prior.base is None else f"log({there}) / {log(prior.base)!r}"
    natural = prior.base is None
    match prior:
        case priors.LogNormal(mean, sd):
            return f"lognormal_lpdf({there} | {mean!r}, {sd!r})", True
        case priors.LogLaplace(mean, scale):
            return f"double_exponential_lpdf(log({there}) | {mean!r}, {scale!r})", False
        case priors.Normal(mean, sd):
            return f"normal_lpdf({value} | {mean!r}, {sd!r})", natural
        case priors.Laplace(mean, scale):
            return f"double_exponential_lpdf({value} | {mean!r}, {scale!r})", natural
    known = _positive_density(prior)
    return (known.format(there), True) if known else ("", natural)  # uniform: the bounds say it


def _positive_density(prior: Prior) -> str:
    """The log density of a prior on the value itself, in which {} is the value; empty for a uniform one."""
    match prior:
        case priors.HalfNormal(sd):
            found = f"normal_lpdf({{}} | 0, {sd!r})"
        case priors.StudentT(degrees, location, scale):
            found = f"student_t_lpdf({{}} | {degrees!r}, {location!r}, {scale!r})"
        case priors.Cauchy(location, scale):
            found = f"cauchy_lpdf({{}} | {location!r}, {scale!r})"
        case priors.HalfCauchy(scale):
            found = f"cauchy_lpdf({{}} | 0, {scale!r})"
        case priors.Exponential(rate):
            found = f"exponential_lpdf({{}} | {rate!r})"
        case priors.Gamma(shape, rate):
            found = f"gamma_lpdf({{}} | {shape!r}, {rate!r})"
        case priors.InverseGamma(shape, scale):
            found = f"inv_gamma_lpdf({{}} | {shape!r}, {scale!r})"
        case priors.Beta(alpha, beta):
            found = f"beta_lpdf({{}} | {alpha!r}, {beta!r})"
        case priors.Rayleigh(scale):
            found = f"rayleigh_lpdf({{}} | {scale!r})"
        case _:
            found = ""
    return found
