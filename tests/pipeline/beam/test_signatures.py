"""Beam inspects a method once, with unchanged results."""

import inspect

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import core, userstate

from pipeline.beam.signatures import cache_signatures


class Counting(beam.DoFn):
    """A DoFn with state, which Beam finds in the defaults of `process`."""

    STATE = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())
    COUNT = beam.DoFn.StateParam(STATE)

    def process(self, element, count=COUNT):
        yield element

    @staticmethod
    def other(element, default=1):
        return element


@pytest.fixture(autouse=True)
def inspected_before(monkeypatch):
    monkeypatch.setattr(
        core,
        "get_function_args_defaults",
        inspect.unwrap(core.get_function_args_defaults),
    )
    expected = signatures()
    cache_signatures()
    cache_signatures()
    return expected


def signatures():
    do_fn = Counting()
    functions = (do_fn.process, Counting.process, do_fn.other, do_fn.setup, len)
    return [core.get_function_args_defaults(function) for function in functions]


def test_cached_signatures_are_the_inspected_ones(inspected_before):
    assert signatures() == inspected_before
    assert signatures() == inspected_before
    assert userstate.get_dofn_specs(Counting()) == ({Counting.STATE}, set())


def test_method_is_inspected_once(monkeypatch):
    inspected = []
    get_signature = core.get_signature
    monkeypatch.setattr(
        core, "get_signature", lambda f: inspected.append(f) or get_signature(f)
    )
    for _ in range(3):
        userstate.get_dofn_specs(Counting())
    functions = [method.__func__ for method in inspected]
    assert functions
    assert len(functions) == len(set(functions))


def test_changed_result_changes_no_later_one(inspected_before):
    names, defaults = core.get_function_args_defaults(Counting().process)
    names.append("another")
    defaults.clear()
    assert signatures() == inspected_before
