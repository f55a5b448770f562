"""What Beam does for the pipeline, repeated on another runner."""

from benchmarks import beam_runners
from pipeline.history.metadata import MetadataReader

WORK = (*beam_runners.COMPONENTS, beam_runners.PREDICTION)


def check(finished, beam, work=WORK):
    """Compares what a runner computes with the default runner's results.

    Args:
      finished: A run by the default runner.
      beam: The settings of the other one.
      work: Components, and `beam_runners.PREDICTION`.
    """
    # The first run: a later one may have failed on purpose.
    run_id = MetadataReader(finished.paths.metadata).run_ids()[0]
    measured = beam_runners.measure(finished.config, run_id, [beam], work)
    assert [m.work for m in measured if m.runner.startswith(beam.runner)] == [*work]
    assert [(m.work, m.differences) for m in measured if m.differences] == []
