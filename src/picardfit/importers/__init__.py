"""Models and problems written for other programs: `picardfit.importers.sbml`, `picardfit.importers.petab`."""
