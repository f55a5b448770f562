"""The names that `pipeline` exports."""

import importlib
import pkgutil
import subprocess
import sys

import pipeline


def test_every_name_is_found_and_hides_no_sub_module():
    modules = {module.name for module in pkgutil.iter_modules(pipeline.__path__)}
    assert not modules & set(pipeline.__all__)
    for name in pipeline.__all__:
        value = getattr(pipeline, name)
        assert value.__doc__
        assert name in dir(pipeline)
        assert getattr(importlib.import_module(pipeline._MODULES[name]), name) is value


def test_import_of_the_package_loads_nothing_heavy():
    code = (
        "import sys, pipeline; dir(pipeline); "
        "print({'tensorflow', 'tfx', 'pandas', 'numpy', 'rich', 'click', 'pydantic'}"
        " & set(sys.modules))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed == "set()\n"
