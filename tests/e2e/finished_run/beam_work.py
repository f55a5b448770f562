"""What Beam does for the pipeline, repeated on another runner."""

import contextlib
import threading

from benchmarks import beam_runners
from report.run_metadata import MetadataReader

WORK = (*beam_runners.COMPONENTS, beam_runners.PREDICTION)


def check(finished, beam, work=WORK):
    """Compares what a runner computes with the default runner's results.

    Args:
      finished: A run by the default runner.
      beam: The settings of the other one.
      work: Components, and `beam_runners.PREDICTION`.
    """
    # The first run: a later one may have failed on purpose.
    run_id = MetadataReader.of_file(finished.paths.metadata).run_ids()[0]
    measured = beam_runners.measure(finished.config, run_id, [beam], work)
    assert [m.work for m in measured if m.runner.startswith(beam.runner)] == [*work]
    assert [(m.work, m.differences) for m in measured if m.differences] == []
    assert beam_runners.to_markdown(measured).count("| the same |") == len(work)


@contextlib.contextmanager
def killing(try_to_kill):
    """Kills a process once, while the block runs.

    Args:
      try_to_kill: Called repeatedly, until it returns what it killed.

    Yields:
      A list that gets what was killed.
    """
    killed = []
    is_over = threading.Event()

    def wait():
        while not killed and not is_over.wait(0.05):
            process = try_to_kill()
            if process is not None:
                killed.append(process)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()
