"""Limits of gRPC: memory, time, calls and connections."""

import socket
import struct
import time

import grpc
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.serving.conftest import LIMITS, PATIENCE_SECONDS, read_all, wait_until

# The headers of a call, encoded as HPACK literals.
CALL = b"".join(
    b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/grpc.health.v1.Health/Check"),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)


def predict(server, steps):
    request = predict_pb2.PredictRequest(model_spec={"name": "counter"})
    request.inputs["steps"].CopyFrom(tf.make_tensor_proto(steps, tf.int64))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(server.channel)
    return stub.Predict(request, timeout=30)


def predict_longer_and_longer(server):
    for power in range(10, 30, 2):
        predict(server, [2**power])


def test_memory_and_time_of_calls_are_limited(limited):
    with pytest.raises(grpc.RpcError) as refused:
        predict(limited, [-1] * 4000)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the server's --max-queued-mib" in refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        predict_longer_and_longer(limited)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "took more than 1 s" in refused.value.details()


def test_stalled_calls_are_limited_and_end_with_their_connection(limited):
    check = health_pb2_grpc.HealthStub(limited.channel).Check

    def reach_limit():
        """Stalls calls of a connection; returns whether another call was refused."""
        with socket.create_connection(("127.0.0.1", limited.grpc_port)) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
            settings = client.recv(1000)
            assert struct.pack("!HI", 3, 64) in settings  # MAX_CONCURRENT_STREAMS
            for stream in range(1, 41, 2):
                client.sendall(frame(1, 4, stream, CALL))  # and no message
            # On a busy machine the connection may end before the calls have started.
            end = time.monotonic() + LIMITS.request_seconds
            while not is_refused(check):
                if time.monotonic() > end:
                    return False
            client.settimeout(PATIENCE_SECONDS)
            assert b"max connection age" in read_all(client)
            return True

    wait_until(reach_limit)
    wait_until(lambda: not is_refused(check))


def is_refused(check):
    try:
        check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError as error:
        return error.details() == "Concurrent RPC limit exceeded!"
    return False


def frame(kind, flags, stream, content=b""):
    """Returns a frame of HTTP/2."""
    head = struct.pack("!I", len(content))[1:] + bytes([kind, flags])
    return head + struct.pack("!I", stream) + content
