"""A fork server that has imported what a test needs."""

import multiprocessing
from multiprocessing import forkserver

_CONTEXT = multiprocessing.get_context("forkserver")
_preloaded = None


def preload(module):
    """Returns a context whose processes are forked from one that imported a module.

    multiprocessing has one server, which imports nothing more once it runs. It ends
    after its processes, so no process of another module may be alive.
    """
    global _preloaded
    if module != _preloaded:
        forkserver._forkserver._stop()
        _CONTEXT.set_forkserver_preload([module])
        _preloaded = module
    return _CONTEXT
