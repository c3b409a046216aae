"""Which function draws an object of which class; `hook` reads this table when an object is first shown.

A painter is a function of `display`, as "module:function": of the text in a terminal ("": the `repr` of the object, or
the `__str__` that its class defines itself), of the HTML in a notebook and, if there is one, of the picture.
"""

PAINTERS: dict[str, tuple[str, ...]] = {
    "Analysis": ("uncertainty:analysis_text", "notebook:plain_html"),
    "Bands": ("uncertainty:bands_text", "notebook:plain_html"),
    "Bootstrap": ("uncertainty:bootstrap_text", "notebook:plain_html"),
    "Certificate": ("uncertainty:certificate_text", "notebook:plain_html"),
    "Combination": ("verdicts:combination_text", "notebook:plain_html"),
    "DerivedEstimate": ("text:derived_text", "notebook:plain_html"),
    "DerivedEstimates": ("text:derived_table", "notebook:plain_html"),
    "Correlogram": ("verdicts:correlogram_text", "notebook:plain_html", "plots:plot_correlogram"),
    "Contradicted": ("story:contradicted_text", "notebook:plain_html"),
    "Decision": ("story:decision_text", "notebook:plain_html"),
    "Design": ("uncertainty:design_text", "notebook:design_html"),
    "Diagnostics": ("verdicts:diagnostics_text", "notebook:plain_html"),
    "Experiment": ("", "notebook:experiment_html"),
    "Fit": ("text:fit_text", "notebook:fit_html"),
    "Group": ("verdicts:group_text", "notebook:plain_html"),
    "Identifiability": (
        "verdicts:identifiability_text",
        "notebook:identifiability_html",
        "plots:plot_identifiability",
    ),
    "Model": ("text:model_text", "notebook:model_html"),
    "DrawsPicture": ("", "notebook:plain_html", "plots.draws:plot_draws"),
    "Posterior": ("posteriors:posterior_text", "posteriors:posterior_html"),
    "LikelihoodRatio": ("population_text:ratio_text", "notebook:plain_html"),
    "Population": ("population_text:population_text", "notebook:plain_html"),
    "PopulationFit": ("population_text:population_fit_text", "notebook:plain_html"),
    "PredictiveCheck": ("population_text:check_text", "notebook:plain_html"),
    "SimulatedPopulation": ("population_text:simulated_text", "notebook:plain_html"),
    "PopulationProfile": ("population_text:population_profile_text", "notebook:plain_html"),
    "ModelComparison": ("comparison:comparison_text", "comparison:comparison_html"),
    "Problem": ("text:problem_text", "notebook:problem_html"),
    "Profile": (
        "uncertainty:profile_text",
        "notebook:profile_html",
        "plots:plot_profiles",
    ),
    "SearchBegins": ("story:begins_text", "notebook:plain_html"),
    "SearchesBegin": ("story:begin_text", "notebook:plain_html"),
    "SearchEnded": ("story:ended_text", "notebook:plain_html"),
    "Structure": ("verdicts:structure_text", "notebook:plain_html"),
    "Validation": ("validation:validation_text", "validation:validation_html", "plots:plot_validation"),
    "Verdict": ("verdicts:verdict_text", "notebook:plain_html"),
}
