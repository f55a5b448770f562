"""Limits of gRPC: memory, time, calls and connections."""

import socket
import struct
import time

import grpc
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.serving.conftest import (
    LIMITS,
    PATIENCE_SECONDS,
    read_all,
    rpc_refused,
    wait_until,
)

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


def test_memory_and_time_of_calls_are_limited(limited):
    with rpc_refused("INVALID_ARGUMENT", "the server's --max-queued-mib"):
        predict(limited, [-1] * 4000)
    with rpc_refused("DEADLINE_EXCEEDED", "took more than 1 s"):
        for power in range(10, 30, 2):
            predict(limited, [2**power])


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
