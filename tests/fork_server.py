"""Fork servers, each of which has imported what a test needs."""

import functools
import multiprocessing
from multiprocessing import forkserver

_CONTEXT = multiprocessing.get_context("forkserver")


def preload(*modules):
    """Returns a context whose next process is forked from one that imported modules.

    multiprocessing has one server, which imports nothing more once it runs. So this
    starts one for each set of modules, and replaces the function that connects to it.
    """
    forkserver.connect_to_new_process = _server(modules).connect_to_new_process
    return _CONTEXT


@functools.cache
def _server(modules):
    server = forkserver.ForkServer()
    server.set_forkserver_preload(modules)
    return server
