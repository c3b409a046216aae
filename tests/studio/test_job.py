"""Work in a process of its own: what it tells, how it stops, how it dies."""

from __future__ import annotations

import asyncio
import shutil

import pytest

import picardfit as pf
from picardfit.studio.job import Job, Phase
from studio.browsing import STARTERS


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(STARTERS / "influenza", tmp_path / "flu")


def run(kind, folder, names=(), meddle=None):
    """A job to its end; `meddle(job)` is called after every piece of news."""
    heard = []

    def told():
        heard.append(job.phase)
        if meddle is not None:
            meddle(job)

    job = Job(told)
    asyncio.run(job.start(kind, folder, names))
    return job, heard


def test_a_fit_tells_losses_and_curves_and_writes_what_the_command_writes(folder):
    job, heard = run("fit", folder)
    assert (heard[0], heard[-1]) == (Phase.RUNNING, Phase.ENDED)
    assert job.result["success"]
    assert [iteration for search, iteration, _ in job.losses if search == 1][:3] == [1, 2, 3]
    assert list(job.curves["boarding_school_flu"]) == ["in_bed"]
    written = {one.name for one in (folder / "results").iterdir()}
    assert {"fit.json", "parameters.csv", "predictions.csv", "report.html", "earlier"} <= written


def test_two_jobs_may_follow_each_other_at_once(folder):
    job = Job(lambda: None)

    async def twice():
        await job.start("fit", folder)
        await job.start("fit", folder)

    asyncio.run(twice())
    assert job.phase is Phase.ENDED
    assert len(list((folder / "results" / "earlier").glob("*.json"))) == 2


def kill(job):
    if job.phase is Phase.RUNNING and job.losses:
        job.stop(at_once=True)


def test_a_process_that_dies_is_told(folder):
    job, _ = run("fit", folder, meddle=kill)
    assert job.phase is Phase.FAILED
    assert job.errors[0]["code"] == "studio.process_died"


def test_a_mistake_in_the_folder_is_told_with_its_line(folder):
    path = folder / "problem.toml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("lower = 0.1,", "lower = 100,"), encoding="utf-8"
    )
    job, _ = run("fit", folder)
    assert job.phase is Phase.FAILED
    assert job.errors[0]["key"][:1] == ["parameters"]
    assert job.errors[0]["line"]


def test_a_stopped_fit_keeps_its_best_and_goes_on_to_the_same_digits(folder):
    path = folder / "problem.toml"
    path.write_text(path.read_text(encoding="utf-8") + "\n[fit]\nstarts = 60\n", encoding="utf-8")

    def stop(job):
        if job.phase is Phase.RUNNING and any(search > 2 for search, _, _ in job.losses):
            job.stop()

    job, _ = run("fit", folder, meddle=stop)
    assert job.phase is Phase.ENDED
    stopped = pf.load(folder / "results" / "fit.json")
    assert stopped.solution is not None
    job, _ = run("fit", folder, ["continue"])
    resumed = pf.load(folder / "results" / "fit.json")
    whole = pf.fit(pf.read_problem(folder), starts=60, progress=False)
    assert resumed.parameters == whole.parameters
    assert len(resumed.searches) == 60


def test_profiles_and_designs_of_the_saved_fit(folder):
    run("fit", folder)
    job, _ = run("profile", folder, ["recovery"])
    low, high = job.result["profiles"]["recovery"]["interval"]
    assert low < job.result["profiles"]["recovery"]["estimate"] < high
    assert (folder / "results" / "profiles.csv").is_file()
    path = folder / "problem.toml"
    path.write_text(
        path.read_text(encoding="utf-8") + "\n[candidates.long]\ntimes = [1, 5, 9]\n", encoding="utf-8"
    )
    job, _ = run("design", folder)
    assert job.result["chosen"] == ["long"]
