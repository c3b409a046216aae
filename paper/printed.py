"""What the paper prints, as it is in paper.tex; nothing here is computed.

Figures 1, 3 and 4 are pictures: the text gives no numbers for them, only sentences (SAID).
"""

from __future__ import annotations

# Table 1 (label tab:pp_results), section 7.3: number of ponds -> parameter -> (ARE, standard deviation).
# The last column, "mean", is the sum of the six ARE over 6.
TABLE_1 = {
    1: {
        "a": (0.19, 0.11),
        "b": (0.37, 0.29),
        "c": (0.14, 0.12),
        "r": (0.35, 0.36),
        "k": (0.30, 0.31),
        "K": (0.21, 0.15),
        "mean": (0.26, 0.18),
    },
    2: {
        "a": (0.18, 0.19),
        "b": (0.17, 0.11),
        "c": (0.10, 0.09),
        "r": (0.13, 0.09),
        "k": (0.17, 0.15),
        "K": (0.07, 0.06),
        "mean": (0.14, 0.09),
    },
    3: {
        "a": (0.17, 0.15),
        "b": (0.17, 0.15),
        "c": (0.09, 0.06),
        "r": (0.08, 0.09),
        "k": (0.14, 0.12),
        "K": (0.06, 0.05),
        "mean": (0.12, 0.08),
    },
    4: {
        "a": (0.13, 0.11),
        "b": (0.15, 0.16),
        "c": (0.07, 0.06),
        "r": (0.06, 0.05),
        "k": (0.11, 0.10),
        "K": (0.06, 0.05),
        "mean": (0.10, 0.07),
    },
}
TABLE_1_EPS = 0.05
TABLE_1_REPETITIONS = 10
VALLEY = {"a": 3.65, "b": 0.83}  # section 7.3: "indistinguishable" from the true a = 2.8, b = 0.7

# Table 2 (label tab:tumor_results), section 7.4: number of inputs (u1, u1:2, ..., u1:5) -> parameter ->
# (ARE, standard deviation). The print calls rho theta_7.
TABLE_2 = {
    1: {
        "theta1": (0.34, 0.06),
        "theta2": (0.44, 0.09),
        "theta3": (0.67, 0.16),
        "theta4": (0.43, 0.09),
        "theta5": (0.78, 0.32),
        "theta6": (0.70, 0.18),
        "rho": (0.66, 0.00),
    },
    2: {
        "theta1": (0.18, 0.05),
        "theta2": (0.21, 0.07),
        "theta3": (0.31, 0.13),
        "theta4": (0.20, 0.07),
        "theta5": (2.70, 1.50),
        "theta6": (0.37, 0.03),
        "rho": (0.69, 0.02),
    },
    3: {
        "theta1": (0.23, 0.15),
        "theta2": (0.43, 0.13),
        "theta3": (0.88, 0.05),
        "theta4": (0.33, 0.18),
        "theta5": (3.96, 0.00),
        "theta6": (0.78, 0.18),
        "rho": (0.99, 0.00),
    },
    4: {
        "theta1": (0.12, 0.02),
        "theta2": (0.28, 0.04),
        "theta3": (0.67, 0.08),
        "theta4": (0.17, 0.04),
        "theta5": (3.96, 0.00),
        "theta6": (0.57, 0.08),
        "rho": (0.99, 0.00),
    },
    5: {
        "theta1": (0.03, 0.03),
        "theta2": (0.07, 0.07),
        "theta3": (0.15, 0.16),
        "theta4": (0.05, 0.03),
        "theta5": (1.39, 0.99),
        "theta6": (0.01, 0.01),
        "rho": (0.96, 0.05),
    },
}
TABLE_2_EPS = 0.01
TABLE_2_REPETITIONS = 3
IDENTIFIED = 0.3  # ARE below which Table 2 is green
TUMOR_LOSS = {"estimate": 0.027, "truth": 0.006}  # section 7.4, with all inputs

# Section 7.2: eps -> the estimates of the data set that Figure 2 shows.
FITZHUGH_NAGUMO = {0.05: {"theta1": 0.079, "theta2": 0.063}, 0.2: {"theta1": 0.087, "theta2": 0.067}}

# Figure 1 (label fig:VDP_results), section 7.1.
FIGURE_1_EPS = (0.01, 0.05, 0.1, 0.2, 0.4)
FIGURE_1_CONTINUITY = (1.0, 2.0, 5.0, 10.0, 15.0)
FIGURE_1_SAMPLES = (101, 51)
FIGURE_1_REPETITIONS = 10
RHO_ENDS = {-1.0: 0.0, 3.0: 2.0}  # section 7.1: where rho starts -> where it ends

# Figure 3 (label fig:lorenz_results), section 7.5; its section lists eps = 0 as well.
FIGURE_3_EPS = (0.01, 0.05, 0.1, 0.2, 0.4)
FIGURE_3_REPETITIONS = 10
FIGURE_4_EPS = 0.4

SAID = {
    "van_der_pol": "increasing the regularization parameter significantly improves both average loss and ARE for large "
    "noise variance (0.1, 0.2, 0.4), but does not significantly improve performance with low noise (0.01, 0.05)",
    "lorenz": "the Picard method outperforms all methods for low level of noise (at most 0.1) and for larger values "
    "of noise (at least 0.2) performs significantly better than SINDy and fmincon, but comparable to GA",
}
