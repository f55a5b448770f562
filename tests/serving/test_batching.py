"""Which requests run in one batch, and the outputs of each of them."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serving.batching import Batcher, BatchingSettings, estimate_tokens
from serving.errors import Code, RequestError, invalid
from serving.limits import limit_time
from serving.monitoring import Metrics
from serving.signatures import Signature, TensorSpec
from tests.exported import PAIRS

pytestmark = pytest.mark.slow

NUMBERS = TensorSpec(np.dtype(np.int64), (None, None))
DOUBLE = Signature("double", {"x": NUMBERS}, {"y": NUMBERS})


class Doubler:
    """Doubles numbers, refuses negative ones, and records the sizes of its batches."""

    def __init__(self, total=False):
        self.batches = []
        self.first_rows = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.total = total

    def run(self, signature, inputs):
        self.go_on.wait()
        self.batches.append(len(inputs["x"]))
        self.first_rows.append(inputs["x"].flat[0])
        if (inputs["x"] < 0).any():
            raise invalid(got="negative")
        return {"y": inputs["x"].sum(0) if self.total else 2 * inputs["x"]}


def numbers(*rows, width=1):
    return {"x": np.array(rows, np.int64).reshape(len(rows), 1).repeat(width, 1)}


def run(model, requests, signature=DOUBLE, **settings):
    """Runs requests concurrently; returns their outputs and errors in order."""

    async def call():
        batcher = Batcher(BatchingSettings(**{"threads": 1, **settings}), Metrics())
        calls = [batcher.run(model, signature, inputs) for inputs in requests]
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(call())


def test_concurrent_requests_are_run_at_once_and_split_again():
    model = Doubler()
    outputs = run(model, [numbers(1), numbers(2, 3), numbers(4)])
    assert model.batches == [4]
    assert [output["y"].ravel().tolist() for output in outputs] == [[2], [4, 6], [8]]


def test_batch_has_no_more_rows_than_allowed():
    model = Doubler()
    run(model, [numbers(1, 2), numbers(3), numbers(4, 5)], max_batch_rows=3)
    assert model.batches == [3, 2]


def test_request_of_more_rows_is_run_in_pieces_with_others_in_between():
    model = Doubler()
    large = numbers(*range(7))
    outputs = run(model, [large, numbers(10), numbers(11)], max_batch_rows=2)
    assert max(model.batches) == 2
    # The first piece, the two small requests, and only then the other pieces.
    assert model.batches == [2, 2, 2, 2, 1]
    assert [model.first_rows[1], outputs[1]["y"].item()] == [10, 20]
    assert outputs[0]["y"].ravel().tolist() == [0, 2, 4, 6, 8, 10, 12]


TEXTS = TensorSpec(np.dtype(object), (None,))
LENGTHS = Signature("lengths", {"text": TEXTS}, {"y": NUMBERS})


class Lengths:
    """Returns the lengths of texts, and records those of each batch."""

    def __init__(self):
        self.batches = []

    def run(self, signature, inputs):
        lengths = [len(text) for text in inputs["text"]]
        self.batches.append(lengths)
        return {"y": np.array(lengths).reshape(-1, 1)}


def texts(*lengths):
    return {"text": np.array([b"x" * length for length in lengths], object)}


def test_long_texts_fill_a_batch_by_their_tokens():
    model = Lengths()
    requests = [texts(39), texts(399), texts(39), texts(39)]
    outputs = run(model, requests, LENGTHS, max_batch_tokens=110)
    # About 10, 100, 10 and 10 tokens.
    assert model.batches == [[39, 399], [39, 39]]
    assert [output["y"].item() for output in outputs] == [39, 399, 39, 39]


def test_request_of_many_tokens_is_run_in_pieces():
    model = Lengths()
    (output,) = run(model, [texts(39, 39, 399, 79, 39)], LENGTHS, max_batch_tokens=30)
    assert model.batches == [[39, 39], [399], [79, 39]]  # a row is never cut
    assert output["y"].ravel().tolist() == [39, 39, 399, 79, 39]


def test_tokens_are_estimated_from_bytes_and_numbers():
    inputs = {
        "first": np.array([b"x" * 39, b"", b"x" * 10_000], object),
        "second": np.array([b"x" * 7, b"", b""], object),
        "ids": np.zeros([3, 5], np.int64),
    }
    assert estimate_tokens(inputs, 3).tolist() == [10 + 2 + 5, 1 + 1 + 5, 512]
    assert estimate_tokens({"text": np.zeros([0], object)}, 0).tolist() == []


def test_request_whose_outputs_are_not_by_row_is_run_alone_and_as_a_whole():
    unknown = TensorSpec(np.dtype(np.int64), None)
    total = Signature("total", {"x": NUMBERS}, {"y": unknown})
    requests = [numbers(1, 2, 3), numbers(3, 4)]
    outputs = run(Doubler(total=True), requests, total, max_batch_rows=2)
    assert [output["y"].tolist() for output in outputs] == [[6], [7]]


def test_request_is_refused_at_its_deadline_and_leaves_the_queue():
    async def call():
        model, metrics = Doubler(), Metrics()
        model.go_on.clear()
        batcher = Batcher(BatchingSettings(threads=1), metrics)
        requests = [
            limit_time(batcher.run(model, DOUBLE, numbers(n)), 0.05) for n in range(3)
        ]
        errors = await asyncio.gather(*requests, return_exceptions=True)
        waiting = metrics.registry.get_sample_value("serving_queued_rows")
        model.go_on.set()
        return errors, waiting

    errors, waiting = asyncio.run(call())
    for error in errors:
        assert error.code is Code.DEADLINE_EXCEEDED
        assert error.http_status == 504
        assert "took more than 0.05 s (the server's --request-seconds)" in error.message
    assert waiting == 0


def test_remaining_pieces_of_a_cancelled_request_are_not_run():
    async def call():
        model, metrics = Doubler(), Metrics()
        model.go_on.clear()
        batcher = Batcher(BatchingSettings(threads=1, max_batch_rows=2), metrics)
        large = asyncio.create_task(batcher.run(model, DOUBLE, numbers(*range(100))))
        await asyncio.sleep(0.05)  # the first piece is held in the thread
        large.cancel()
        model.go_on.set()
        await batcher.run(model, DOUBLE, numbers(1))
        return model.batches, metrics.registry.get_sample_value("serving_queued_rows")

    batches, waiting = asyncio.run(call())
    assert batches == [2, 1]
    assert waiting == 0


def test_without_batching_each_request_is_run_separately():
    model = Doubler()
    requests = [numbers(1), numbers(2, 3, 4)]
    run(model, requests, joins_requests=False, timeout_seconds=10_000)
    assert model.batches == [1, 3]


def test_rows_of_another_shape_are_not_joined():
    model = Doubler()
    outputs = run(model, [numbers(1), numbers(2, width=2), numbers(3)])
    assert model.batches == [2, 1]
    assert outputs[1]["y"].tolist() == [[4, 4]]


def test_bad_request_does_not_fail_the_others_of_its_batch():
    model = Doubler()
    outputs = run(model, [numbers(1), numbers(-1), numbers(2)])
    assert outputs[0]["y"].tolist() == [[2]]
    assert outputs[2]["y"].tolist() == [[4]]
    assert outputs[1].message == "negative"


def test_one_bad_request_of_many_is_found_in_few_runs():
    model = Doubler()
    outputs = run(model, [numbers(-1 if i == 40 else i) for i in range(64)])
    assert outputs.pop(40).message == "negative"
    assert len(outputs) == 63
    assert all("y" in output for output in outputs)
    assert len(model.batches) == 13  # all, and two halves at each of six levels


def test_request_that_does_not_fit_never_joins_a_batch():
    model = Doubler()
    zeros = np.zeros((1, 1))
    bad = {
        "x: the request has float64[1,1]; allowed: int64[?,?]": {"x": zeros},
        "x: the request has int64[1]; allowed: int64[?,?]": {"x": np.int64([0])},
        "the request has 1: 'z'; allowed: those of": {"z": np.int64(zeros)},
        "inputs: the request has 0": {},
    }
    *errors, output = run(model, [*bad.values(), numbers(1)])
    for error, message in zip(errors, bad, strict=True):
        assert error.code is Code.INVALID_ARGUMENT
        assert message in str(error)
    assert output["y"].tolist() == [[2]]
    assert model.batches == [1]


def test_inputs_without_rows_in_common_are_not_joined():
    fixed = TensorSpec(np.dtype(np.int64), (1, 1))
    model = Doubler()
    signature = Signature("fixed", {"x": fixed}, {"y": fixed})
    outputs = run(model, [numbers(1), numbers(2)], signature)
    assert model.batches == [1, 1]
    assert [output["y"].tolist() for output in outputs] == [[[2]], [[4]]]


def test_columns_of_unequal_length_are_refused():
    signature = Signature("pair", {"a": NUMBERS, "b": NUMBERS}, {"y": NUMBERS})
    inputs = {"a": numbers(1)["x"], "b": numbers(2, 3)["x"]}
    (error,) = run(Doubler(), [inputs], signature)
    assert error.code is Code.INVALID_ARGUMENT
    assert "a has 1, b has 2; allowed: the same number" in error.message


def test_longest_input_counts_where_inputs_have_no_rows_in_common():
    # One output for all rows: the lengths may differ.
    total = TensorSpec(np.dtype(np.int64), ())
    signature = Signature("total", {"a": NUMBERS, "b": NUMBERS}, {"y": total})
    inputs = {"a": numbers(1)["x"], "b": numbers(*range(20))["x"]}
    (error,) = run(Doubler(), [inputs], signature, max_queued_rows=10)
    assert "has 20 rows; allowed: at most 10" in error.message


def test_full_queue_refuses_until_it_has_room():
    async def call():
        model = Doubler()
        model.go_on.clear()
        settings = BatchingSettings(threads=1, timeout_seconds=0, max_queued_rows=2)
        batcher = Batcher(settings, Metrics())

        def start(inputs):
            return asyncio.create_task(batcher.run(model, DOUBLE, inputs))

        running = start(numbers(1))
        await asyncio.sleep(0.05)  # taken out of the queue, held in the thread
        waiting = start(numbers(2, 3))
        await asyncio.sleep(0.05)
        with pytest.raises(RequestError, match="queue is full: 2 of 2 rows") as refused:
            await batcher.run(model, DOUBLE, numbers(4))
        with pytest.raises(RequestError, match="has 3 rows; allowed: at most 2"):
            await batcher.run(model, DOUBLE, numbers(1, 2, 3))
        model.go_on.set()
        await asyncio.gather(running, waiting)
        output = await batcher.run(model, DOUBLE, numbers(5))
        return refused.value, output["y"].tolist()

    error, output = asyncio.run(call())
    assert error.code is Code.RESOURCE_EXHAUSTED
    assert error.http_status == 503
    assert output == [[10]]


def test_cancelled_request_is_not_run():
    async def call():
        model = Doubler()
        model.go_on.clear()
        batcher = Batcher(BatchingSettings(threads=1), Metrics())
        running = asyncio.create_task(batcher.run(model, DOUBLE, numbers(0)))
        await asyncio.sleep(0.05)  # taken out of the queue, held in the thread
        left = asyncio.create_task(batcher.run(model, DOUBLE, numbers(1)))
        stayed = asyncio.create_task(batcher.run(model, DOUBLE, numbers(2)))
        await asyncio.sleep(0.05)
        left.cancel()
        model.go_on.set()
        await running
        assert (await stayed)["y"].tolist() == [[4]]
        return model.batches

    assert asyncio.run(call()) == [1, 1]


def test_request_to_an_idle_server_does_not_wait():
    # It would wait longer than the test may take.
    outputs = run(Doubler(), [numbers(1)], timeout_seconds=10_000)
    assert outputs[0]["y"].tolist() == [[2]]


def test_batching_does_not_change_the_predictions_of_an_exported_model(pairs):
    def predict(pair):
        row = dict(zip(("question", "answer"), pair, strict=True))
        (output,) = pairs.post("pairs:predict", instances=[row]).json()["predictions"]
        return output["probabilities"]

    expected = np.float32([predict(pair) for pair in PAIRS])  # one by one
    before = pairs.sample("serving_batch_rows_count")
    rows = PAIRS * 4
    with ThreadPoolExecutor(len(rows)) as clients:
        outputs = np.float32(list(clients.map(predict, rows)))
    # A batch is padded to its longest row.
    assert pairs.sample("serving_batch_rows_count") - before < len(rows) / 2
    np.testing.assert_allclose(outputs, np.tile(expected, (4, 1)), rtol=1e-5, atol=1e-6)
