"""Sets a process up for TensorFlow and TFX; every entry point calls `set_up` first."""

import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import io
import logging
import os
import socket
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

_LOOPBACK = ("localhost", "127.0.0.1", "127.0.1.1", "0.0.0.0", "::1")
_ESCAPE = "backslashreplace"
_NEW_OBJECTS = 50_000  # Python's default is 700
_STREAMS = "PYTHONIOENCODING"  # ENCODING:ERRORS of the streams of a new process


def set_up(*, quiet: bool = False) -> None:
    """Prepares this process for TensorFlow and TFX. Calling it again does no harm.

    It imports neither. The settings of TensorFlow take effect when TensorFlow is
    imported, or at once if it has been imported. This process and its child processes
    use no proxy for this machine's host name and loopback addresses. Its child
    processes, such as Beam's workers, print any text, too.

    Args:
      quiet: Whether to hide TensorFlow's start-up notices. They come from C++, and from
        libraries that announce the end of a Python version. A user can do nothing about
        them.
    """
    escape_unprintable()
    encoding, _, _ = os.environ.get(_STREAMS, "").partition(":")
    os.environ[_STREAMS] = f"{encoding}:{_ESCAPE}"
    if quiet:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        warnings.simplefilter("ignore", FutureWarning)
        # Beam warns of a missing package that it does not need.
        logging.getLogger().setLevel(logging.ERROR)
    _bypass_proxy()
    if "tensorflow" in sys.modules:
        _set_up_autograph()
    elif quiet or not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(quiet=quiet and sys.stderr is not None))


def escape_unprintable() -> None:
    """Escapes characters that the encoding of stdout or stderr lacks.

    By default Python raises UnicodeEncodeError: a path that Orbit prints would stop a
    training.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)


def exempt_from_autograph() -> None:
    """Stops AutoGraph from converting Keras, the Model Garden and our own modules.

    TensorFlow 2.16 exempts `keras` from conversion but not `tf_keras`, which makes
    building and tracing a BERT five to ten times slower. TensorFlow 2.21 exempts both.
    The control flow of all three is explicit and needs no conversion. Orbit's loops
    over steps need it.
    Source: `tensorflow/python/autograph/core/config.py`.
    """
    from tensorflow.python.autograph.core import config, config_lib

    exempt = {str(rule) for rule in config.CONVERSION_RULES}
    packages = ("tf_keras", "official", __package__)
    rules = [config_lib.DoNotConvert(package) for package in packages]
    missing = [rule for rule in rules if str(rule) not in exempt]
    config.CONVERSION_RULES = (*missing, *config.CONVERSION_RULES)


def _set_up_autograph() -> None:
    """Calls `exempt_from_autograph`, and has no bytecode of conversions written.

    AutoGraph deletes its temporary files, but not their `__pycache__`.
    Source: `tensorflow/python/autograph/pyct/loader.py`.
    """
    exempt_from_autograph()
    from tensorflow.python.autograph.pyct import loader

    load_source = getattr(loader.load_source, "__wrapped__", loader.load_source)

    @functools.wraps(load_source)
    def load_without_bytecode(*args: Any, **options: Any) -> Any:
        previous, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            return load_source(*args, **options)
        finally:
            sys.dont_write_bytecode = previous

    loader.load_source = load_without_bytecode


def _bypass_proxy() -> None:
    """Adds names of this machine to the hosts that the user's proxy is not for.

    They are its host name, without a domain that only DNS knows, and `_LOOPBACK`.

    gRPC uses `http_proxy` for them, too, so that Beam's runner and its workers would
    wait for each other. It reads `no_grpc_proxy`, or else `no_proxy`, in lower case and
    without the `*` that other clients know.
    Source: `src/core/handshaker/http_connect/http_proxy_mapper.cc`.
    """
    bypassed = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    names = (*_LOOPBACK, socket.gethostname())
    for name in ("no_proxy", "no_grpc_proxy"):
        value = os.environ.get(name, bypassed)
        hosts = [host.strip() for host in value.split(",") if host.strip()]
        if name == "no_grpc_proxy" or hosts != ["*"]:  # `*` counts only by itself
            os.environ[name] = ",".join(dict.fromkeys((*hosts, *names)))


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Searches new objects for garbage less often, as rows refer to no other rows."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Exempts what is imported inside from garbage collection.

    The objects of TFX and TensorFlow live as long as the process. Searching them for
    garbage takes a fifth of the time of the imports, and time at each later collection.
    """
    is_enabled = gc.isenabled()  # not within another import
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.freeze()
            gc.enable()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow once, and exempts our code from AutoGraph after its import.

    Args:
      quiet: Whether to hide what TensorFlow writes to stderr during its import, unless
        the import fails. TensorFlow 2.21 writes at any `TF_CPP_MIN_LOG_LEVEL`
        (https://github.com/tensorflow/tensorflow/issues/100442).
    """

    def __init__(self, *, quiet: bool) -> None:
        self._hidden = _hidden_stderr if quiet else contextlib.nullcontext

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns TensorFlow's spec; its loader calls `_set_up_autograph`, too."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_set_up(module: types.ModuleType) -> None:
                with self._hidden(), importing():
                    execute(module)
                _set_up_autograph()

            spec.loader.exec_module = execute_and_set_up  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _hidden_stderr() -> Iterator[None]:
    """Hides stderr, that of C++ included, unless the block raises."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(stderr, hidden.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
