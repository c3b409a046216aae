"""Small PEtab problems in the style of the public benchmark collection, with the likelihood by libRoadRunner.

A problem is a model in Antimony with its tables as lines of words: conditions `name entity=value ...`, observables
`name | formula | noise | transformation | distribution`, measurements `observable | pre-equilibration | condition |
observable parameters | noise parameters`, each at TIMES with VALUES unless `time:value` pairs follow, parameters
`name scale nominal`. The likelihoods were computed by
libRoadRunner 2.10 at a relative tolerance of 1e-12, as test_petab_simulators.py does where that library is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

TIMES = (0.4, 1.1, 2.3, 4.2, 7.7)
VALUES = (0.7, 0.91, 1.12, 1.33, 1.54)


@dataclass(frozen=True)
class Written:
    """A problem as text, and its negative log-likelihood at the nominal values."""

    model: str
    conditions: tuple[str, ...]
    observables: tuple[str, ...]
    measurements: tuple[str, ...]
    parameters: tuple[str, ...]
    nllh: float


PROBLEMS = {
    "scales, placeholders of scale and noise": Written(
        """model m
        compartment c = 1; species S in c = 5, P in c = 0.1;
        vmax = 1; km = 0.5; kd=0.1;
        J1: S -> P; vmax*S/(km+S); J2: P -> ; kd*P;
        end""",
        (
            "low vmax=vmax_low",
            "high vmax=vmax_high km=0.9",
        ),
        (
            "oS | observableParameter1_oS*s1*S+off | noiseParameter1_oS | lin | normal",
            "oP | P | sd_P | log10 | normal",
        ),
        (
            "oS |  | low | 1 | sd_a",
            "oS |  | high | 2 | 0.3",
            "oP |  | low |  | ",
            "oP |  | high |  | ",
        ),
        (
            "vmax_low log10 0.7",
            "vmax_high log10 2.2",
            "kd log 0.15",
            "s1 log10 1.3",
            "off lin 0.2",
            "sd_a log10 0.25",
            "sd_P log10 0.12",
        ),
        1561.54501,
    ),
    "pre-equilibration, of all and of some states": Written(
        """model m
        compartment c = 1; species A in c = 1, B in c = 0, C in c = 2;
        stim = 0; k1=1;k2=0.5;k3=0.3;k4=0.8;
        J0: -> A; 0.3*k1; J1: A -> B; (k1+stim)*A; J2: B -> A; k2*B; J3: B -> C; k3*B; J4: C -> ; k4*C;
        end""",
        (
            "pre stim=0.1 C=nan",
            "on stim=2.0 C=c0",
            "on2 stim=st C=nan",
        ),
        (
            "oB | B | 0.1+0.05*B | lin | normal",
            "oC | sc*C | sdc | log | normal",
        ),
        (
            "oB | pre | on |  | ",
            "oC | pre | on |  | ",
            "oB | pre | on2 |  | ",
            "oC | pre | on2 |  | ",
        ),
        (
            "k1 log10 0.9",
            "k2 log10 0.4",
            "k3 lin 0.35",
            "st log10 1.2",
            "c0 lin 1.7",
            "sc log10 0.8",
            "sdc log10 0.2",
            "k4 log10 0.8 fixed",
        ),
        201.474909,
    ),
    "sizes of compartments by condition": Written(
        """model m
        compartment cyt = 2, nuc = 0.5; species X in cyt = 3, Y in nuc = 0.2, Z in nuc = 0;
        kin=0.4;kout=0.2;kz=0.3;
        J1: X -> Y; cyt*kin*X; J2: Y -> X; nuc*kout*Y; J3: 2 Y -> Z; nuc*kz*Y^2;
        end""",
        (
            "a nuc=0.5",
            "b nuc=0.9 cyt=vcyt",
        ),
        (
            "oX | X | 0.1 | lin | normal",
            "oY | Y+2*Z | sdY | lin | normal",
            "oA | X*cyt+Y*nuc | 0.3 | lin | laplace",
        ),
        (
            "oX |  | a |  | ",
            "oY |  | a |  | ",
            "oX |  | b |  | ",
            "oY |  | b |  | ",
            "oA |  | b |  | ",
        ),
        (
            "kin log10 0.45",
            "kout log10 0.25",
            "vcyt lin 1.6",
            "sdY log10 0.15",
        ),
        5992.04367,
    ),
    "amounts and concentrations": Written(
        """model m
        compartment c = 3; substanceOnly species A in c, B in c; A = 6; B = 0; species D in c = 1;
        k1=0.5;k2=0.1;
        J1: A -> B; k1*A; J2: B + D -> A; k2*B*D;
        end""",
        (
            "a A=6",
            "b A=a0 D=1.5",
        ),
        (
            "oA | A | 0.2 | lin | normal",
            "oB | B/c | 0.1 | log10 | laplace",
            "oD | D | 0.1 | lin | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | a |  | ",
            "oA |  | b |  | ",
            "oB |  | b |  | ",
            "oD |  | b |  | ",
            "oD |  | a |  | ",
        ),
        (
            "k1 log10 0.6",
            "k2 log10 0.2",
            "a0 lin 4.5",
        ),
        738.065308,
    ),
    "functions in functions, local parameters": Written(
        """function hill(x, k, n)
        x^n/(k^n+x^n)
        end
        function twice(x, k)
        2*hill(x,k,3)
        end
        model m
        compartment c = 1; species G in c = 0.3, R in c = 1.2;
        ks=1;
        J1: -> G; ks*twice(R, 0.8); J2: G -> ; kk*G; kk = 0.7; J3: -> R; 0.5; J4: R -> ; 0.4*R*hill(G,1.1,n);
        n = 2;
        end""",
        (
            "a n=2",
            "b n=4",
        ),
        (
            "oG | G | 0.2 | lin | normal",
            "oR | sqrt(R)+ln(1+G) | 0.1 | lin | normal",
        ),
        (
            "oG |  | a |  | ",
            "oR |  | a |  | ",
            "oG |  | b |  | ",
            "oR |  | b |  | ",
        ),
        (
            "ks log10 1.3",
            "kk log10 0.6",
        ),
        1102.96089,
    ),
    "an input that ends at an estimated time": Written(
        """model m
        compartment c = 1; species X in c = 0.5, Y in c = 0;
        k=0.6; toff=3; uin=1; W = 0.1;
        W' = 0.2 - 0.05*W;
        u := piecewise(uin, time < toff, 0.1*uin);
        J1: -> X; u*(1+W); J2: X -> Y; k*X; J3: Y -> ; 0.3*Y;
        end""",
        (
            "a uin=1",
            "b uin=2.5 toff=tb",
        ),
        (
            "oX | X | 0.1 | lin | normal",
            "oY | Y+W | 0.1+0.1*Y | lin | normal",
        ),
        (
            "oX |  | a |  | ",
            "oY |  | a |  | ",
            "oX |  | b |  | ",
            "oY |  | b |  | ",
        ),
        (
            "k log10 0.7",
            "toff lin 2.7",
            "tb lin 4.9",
        ),
        1694.91969,
    ),
    "doses at times that are parameters": Written(
        """model m
        compartment c = 1; species G in c = 0, B in c = 0.2;
        ka=0.9;ke=0.3;dose=2;td=1.5;uu=0.1;
        J1: G -> B; ka*G; J2: B -> ; ke*B;
        E1: at (time >= td): G = G + dose;
        E2: at (time >= 2*td+0.3): G = G + dose/2, uu = uu*1.2 + ke;
        end""",
        (
            "a dose=2",
            "b dose=db td=0.9",
        ),
        (
            "oB | B | 0.1 | lin | normal",
            "oG | G+uu | 0.2 | lin | normal",
        ),
        (
            "oB |  | a |  | ",
            "oG |  | a |  | ",
            "oB |  | b |  | ",
            "oG |  | b |  | ",
        ),
        (
            "ka log10 1.1",
            "ke log10 0.25",
            "db log10 3.3",
        ),
        406.203253,
    ),
    "an event that waits for a state": Written(
        """model m
        compartment c = 1; species X in c = 1, Y in c = 0;
        r=0.7; th=2.2; drop=0.4;
        J1: -> X; r*X; J2: -> Y; 0.5*X; J3: Y->; 0.3*Y;
        E1: at (X > th): X = X*drop, Y = Y + 1;
        end""",
        (
            "a th=2.2",
            "b th=thb X=1.5",
        ),
        (
            "oX | X | 0.1 | lin | normal",
            "oY | Y | 0.2 | lin | normal",
        ),
        (
            "oX |  | a |  | ",
            "oY |  | a |  | ",
            "oX |  | b |  | ",
            "oY |  | b |  | ",
        ),
        (
            "r log10 0.65",
            "thb lin 3.1",
            "drop lin 0.45",
        ),
        1197.04256,
    ),
    "assignment rules, noise that follows the output": Written(
        """model m
        compartment c = 1; species A in c = 2, B in c = 0.5;
        k1=0.5;k2=0.2; tot := A + B; ratio := A/tot;
        J1: A -> B; k1*A*ratio; J2: B -> ; k2*B*tot;
        end""",
        ("a",),
        (
            "oT | tot*sc | noiseParameter1_oT+noiseParameter2_oT*tot*sc | lin | normal",
            "oR | observableParameter1_oR*ratio+observableParameter2_oR | 0.05 | lin | normal",
        ),
        (
            "oT |  | a |  | sd0;sd1",
            "oT |  | a |  | 0.2;0.1",
            "oR |  | a | 2;off | ",
            "oR |  | a | sc;0.1 | ",
        ),
        (
            "k1 log10 0.6",
            "k2 log10 0.3",
            "sc log10 1.4",
            "sd0 log10 0.1",
            "sd1 log10 0.15",
            "off lin -0.1",
        ),
        679.954208,
    ),
    "distributions and transformations": Written(
        """model m
        compartment c = 1; species A in c = 2, B in c = 0.5;
        k1=0.5;k2=0.2;
        J1: A -> B; k1*A; J2: B -> A; k2*B;
        end""",
        ("a",),
        (
            "o1 | A | b1 | lin | laplace",
            "o2 | B | b1/2 | log | laplace",
            "o3 | A*B+0.1 | 0.3 | log10 | laplace",
            "o4 | A | 0.2 | log | normal",
        ),
        (
            "o1 |  | a |  | ",
            "o2 |  | a |  | ",
            "o3 |  | a |  | ",
            "o4 |  | a |  | ",
        ),
        (
            "k1 log10 0.6",
            "k2 log10 0.3",
            "b1 log10 0.4",
        ),
        26.1560721,
    ),
    "initial assignments of estimated parameters": Written(
        """model m
        compartment c = 1.5; species A in c, B in c;
        a0 = 2; f = 0.3; kd=0.4; kf := kd*2+0.1;
        A = a0*(1-f); B = a0*f;
        J1: A -> B; c*kf*A; J2: B -> ; c*kd*B;
        end""",
        (
            "a a0=2",
            "b a0=a0b f=0.6",
        ),
        (
            "oA | A | 0.1 | lin | normal",
            "oB | B | 0.1 | lin | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | a |  | ",
            "oA |  | b |  | ",
            "oB |  | b |  | ",
        ),
        (
            "kd log10 0.5",
            "a0b log10 3.7",
        ),
        1000.55522,
    ),
    "steady states, with and without pre-equilibration": Written(
        """model m
        compartment c = 1; species A in c = 1, B in c = 2, C in c=0;
        k1=1;k2=0.5;k3=0.3;s=0.2;
        J0: -> A; s; J1: A -> B; k1*A; J2: B -> A; k2*B; J3: B -> ; k3*B; J4: A -> C; 0.0*A;
        end""",
        (
            "a s=0.2",
            "b s=sb",
        ),
        (
            "oA | A | 0.1 | lin | normal",
            "oB | B | 0.1 | log | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | b |  | ",
            "oA |  | b |  |  | inf:0.8",
            "oB |  | a |  |  | inf:0.5",
            "oB | a | b |  |  | inf:0.6",
            "oA | a | b |  | ",
        ),
        (
            "k1 log10 1.1",
            "k2 log10 0.4",
            "sb log10 0.9",
        ),
        388.588466,
    ),
    "boundary species with rules, stoichiometries": Written(
        """model m
        compartment c = 1; species A in c = 2, B in c = 0.5; species $L in c = 1; species $K in c = 0.7;
        k1=0.5;k2=0.2;
        L' = -0.3*L; K := 0.5 + 0.2*sin(time);
        J1: 2 A + L -> 3 B; k1*A^2*L; J2: B => A; k2*B*K - 0.05*A;
        end""",
        (
            "a L=1",
            "b L=l0",
        ),
        (
            "oA | A+L | 0.1 | lin | normal",
            "oB | B*K | 0.1 | lin | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | a |  | ",
            "oA |  | b |  | ",
            "oB |  | b |  | ",
        ),
        (
            "k1 log10 0.6",
            "k2 log10 0.3",
            "l0 log10 1.9",
        ),
        519.744571,
    ),
    "estimated initial values by condition": Written(
        """model m
        compartment c = 1; species S in c = 99, I in c = 1, R in c = 0;
        beta=0.02; gam=0.3; n = 1.3;
        b := beta*(1 + 0.3*sin(2*3.14159*time/4));
        J1: S -> I; b*S*I^n; J2: I -> R; gam*I;
        end""",
        (
            "a S=Sa I=Ia",
            "b S=Sb I=2",
            "cc S=50 I=Ia",
        ),
        (
            "oI | I | 0.1*I+1 | lin | normal",
            "oR | rho*R | 3 | lin | normal",
        ),
        (
            "oI |  | a |  | ",
            "oR |  | a |  | ",
            "oI |  | b |  | ",
            "oI |  | cc |  | ",
            "oR |  | cc |  | ",
        ),
        (
            "beta log10 0.015",
            "gam log10 0.4",
            "Sa log10 80",
            "Sb lin 60",
            "Ia log10 0.5",
            "rho log10 0.7",
        ),
        292.384652,
    ),
    "a volume that grows": Written(
        """model m

        var compartment v = 1; species A in v = 2, B in v = 0;
        g=0.2; v' = g*v;
        k1=0.5;
        J1: A -> B; v*k1*A;
        end""",
        (
            "a g=0.2",
            "b g=gb",
        ),
        (
            "oA | A | 0.1 | lin | normal",
            "oB | B | 0.1 | lin | normal",
            "oV | v | 0.1 | lin | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | a |  | ",
            "oA |  | b |  | ",
            "oB |  | b |  | ",
            "oV |  | b |  | ",
        ),
        (
            "k1 log10 0.6",
            "gb log10 0.1",
        ),
        612.93878,
    ),
    "events after pre-equilibration": Written(
        """model m
        compartment c = 1; species A in c = 0, B in c = 0;
        s=0.5; k1=0.4; k2=0.3; u = 0;
        J0: -> A; s+u; J1: A -> B; k1*A; J2: B -> ; k2*B;
        E: at (time >= 2): u = 1;
        E2: at (B > bmax): A = 0.1;
        bmax = 100;
        end""",
        (
            "pre s=0.5",
            "go s=0.9 bmax=bm",
        ),
        (
            "oA | A | 0.1 | lin | normal",
            "oB | B | 0.1 | lin | normal",
        ),
        (
            "oA | pre | go |  | ",
            "oB | pre | go |  | ",
        ),
        (
            "k1 log10 0.5",
            "k2 log10 0.25",
            "bm lin 3.1",
        ),
        547.976695,
    ),
    "zero on a logarithmic scale, a rate by condition": Written(
        """model m
        compartment c = 1; species A in c = 2, B in c = 0;
        k1=0.5;k2=0;
        J1: A -> B; k1*A*exp(-k2*B); J2: B -> ; piecewise(0.4, B < 0.5, 0.1)*B;
        end""",
        ("a",),
        (
            "oA | log10(A+1) | 0.1 | lin | normal",
            "oB | B^2/(1+B^2) | 0.1 | lin | normal",
        ),
        (
            "oA |  | a |  | ",
            "oB |  | a |  |  | 0.4:0.7 1.1:0.91 2.3:1.12 4.2:1.33 7.7:1.54 0:0.7 0.4:0.91 0.4:1.12 2.3:1.33 2.3:1.54",
        ),
        (
            "k1 log10 0.6",
            "k2 log10 0",
        ),
        529.213831,
    ),
    "stiff enzyme kinetics": Written(
        """model m
        compartment c = 1; species E in c = 0.01, S in c = 10, C in c = 0, P in c = 0;
        kon=1e4;koff=1e3;kcat=50;
        J1: E + S -> C; kon*E*S; J2: C -> E + S; koff*C; J3: C -> E + P; kcat*C;
        end""",
        (
            "a S=10",
            "b S=0.3",
        ),
        (
            "oP | P | 0.1*P+0.01 | lin | normal",
            "oC | C | sdc | log10 | normal",
        ),
        (
            "oP |  | a |  | ",
            "oC |  | a |  |  | 0.4:0.009 1.1:0.0092 2.3:0.008 4.2:0.007 7.7:0.006",
            "oP |  | b |  | ",
        ),
        (
            "kon log10 20000.0",
            "koff log10 800",
            "kcat log10 60",
            "sdc log10 0.2",
        ),
        1378.98307,
    ),
}
