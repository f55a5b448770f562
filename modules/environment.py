"""The one place that sets TensorFlow up; imported before TensorFlow is."""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Sequence

# tft, tfma and the Model Garden are written against Keras 2 (`tf_keras`).
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def _import_extensions_when_used() -> None:
    """Has `tfx.v1` import its extensions when somebody asks for one of them.

    They bring the client library of Google Cloud's AI Platform, a third of what
    importing TFX takes, and only a pipeline on Vertex AI uses it.
    Source: `tfx/v1/__init__.py` and `tfx/v1/extensions/__init__.py`.
    """
    tfx = importlib.util.find_spec("tfx")
    name = "tfx.v1.extensions"
    if tfx is None or tfx.submodule_search_locations is None or name in sys.modules:
        return
    spec = importlib.machinery.ModuleSpec(name, loader=None, is_package=True)
    spec.submodule_search_locations = [
        os.path.join(location, "v1", "extensions")
        for location in tfx.submodule_search_locations
    ]
    package = importlib.util.module_from_spec(spec)
    # Python asks it for what the module does not have (PEP 562).
    vars(package)["__getattr__"] = _import_extension
    sys.modules[name] = package


def _import_extension(name: str) -> types.ModuleType:
    full_name = f"tfx.v1.extensions.{name}"
    if importlib.util.find_spec(full_name) is None:
        raise AttributeError(f"module 'tfx.v1.extensions' has no attribute {name!r}")
    return importlib.import_module(full_name)


_import_extensions_when_used()


def silence_start_up() -> None:
    """Keeps TensorFlow's start-up notices from the terminal of a short command.

    They come from the C++ side and from libraries that announce the end of a Python
    version; none says anything that a user can act on.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" not in sys.modules and sys.stderr is not None:
        sys.meta_path.insert(0, _QuietTensorFlow())
    warnings.simplefilter("ignore", FutureWarning)
    # Beam's word on a package that it can do without.
    logging.getLogger().setLevel(logging.ERROR)


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    """Keeps what TensorFlow says on stderr while it is imported, unless that fails.

    TensorFlow 2.21 says it whatever `TF_CPP_MIN_LOG_LEVEL` is
    (https://github.com/tensorflow/tensorflow/issues/100442).
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the module as others find it, to be imported in silence."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_quietly(module: types.ModuleType) -> None:
                with _kept_stderr():
                    execute(module)

            spec.loader.exec_module = execute_quietly  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _kept_stderr() -> Iterator[None]:
    """Keeps what is written to stderr, C++ included, and tells it if this fails."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(stderr, kept.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Keeps the garbage collector away from imports, and for good from what they made.

    What TFX and TensorFlow make as they are imported stays; to search it for garbage
    takes a fifth of the imports' time, and more later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_autograph_out_of_keras() -> None:
    """Stops AutoGraph from converting Keras and Model Garden code.

    TensorFlow 2.16 exempts `keras` from conversion but not `tf_keras`, which makes
    building and tracing a BERT five to ten times slower; TensorFlow 2.21 exempts
    both. Neither library relies on conversion: their control flow is explicit.
    Source: `tensorflow/python/autograph/core/config.py`.
    """
    from tensorflow.python.autograph.core import config, config_lib

    exempt = {str(rule) for rule in config.CONVERSION_RULES}
    missing = [
        rule
        for rule in (
            config_lib.DoNotConvert("tf_keras"),
            config_lib.DoNotConvert("official"),
        )
        if str(rule) not in exempt
    ]
    config.CONVERSION_RULES = (*missing, *config.CONVERSION_RULES)
