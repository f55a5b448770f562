"""What Beam does for the pipeline, repeated on another runner."""

from benchmarks import beam_runners

PREDICTION = beam_runners.PREDICTION
WORK = (*beam_runners.COMPONENTS, PREDICTION)


def check(finished, beam, work=WORK):
    """Compares what a runner computes with the default runner's results.

    Args:
      finished: A run by the default runner.
      beam: The settings of the other one.
      work: Components, and `PREDICTION`.
    """
    config = finished.config
    run_id = beam_runners.latest_run_id(config)
    measured = beam_runners.measure(config, run_id, [beam], work)
    assert [m.work for m in measured if m.runner == beam.runner] == [*work]
    assert [(m.work, m.differences) for m in measured if m.differences] == []
