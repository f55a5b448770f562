"""The server's token and TLS over gRPC."""

import os
import shutil
import ssl

import grpc
import pytest
import tensorflow as tf
from cryptography.hazmat.primitives.asymmetric import rsa
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving import tls, tokens
from tests.serving import certificates
from tests.serving.certificates import Authority
from tests.serving.conftest import (
    PATIENCE_SECONDS,
    rpc_refused,
    running,
    wait_until,
)

SECRET = "0123456789abcdef-._~+/=="


@pytest.fixture(scope="module")
def server(root):
    """A server that needs the token."""
    with running(root, token=tokens.Token(SECRET.encode())) as server:
        yield server


def predict_rpc(server, metadata):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(server.channel)
    request = predict_pb2.PredictRequest(
        model_spec={"name": "half_plus_three"},
        inputs={"x": tf.make_tensor_proto([1.0])},
    )
    response = stub.Predict(request, metadata=metadata, timeout=PATIENCE_SECONDS)
    return response.outputs["y"].float_val[0]


def test_rpc_with_the_token_is_predicted(server):
    metadata = [("authorization", f"Bearer {SECRET}")]
    assert predict_rpc(server, metadata) == 3.5


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        [("authorization", "Bearer wrong")],
        [("authorization", SECRET)],
        [("authorization", f"Bearer {SECRET}"), ("authorization", "Bearer other")],
    ],
)
def test_rpc_without_the_token_is_unauthenticated(server, metadata):
    with rpc_refused("UNAUTHENTICATED") as error:
        predict_rpc(server, metadata)
    assert SECRET not in error.value.details()
    stub = model_service_pb2_grpc.ModelServiceStub(server.channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "half_plus_three"
    with rpc_refused("UNAUTHENTICATED"):
        stub.GetModelStatus(request, metadata=metadata, timeout=PATIENCE_SECONDS)


def test_health_check_alone_needs_no_token_over_grpc(server):
    stub = health_pb2_grpc.HealthStub(server.channel)
    request = health_pb2.HealthCheckRequest()
    response = stub.Check(request, timeout=PATIENCE_SECONDS)
    assert response.status == health_pb2.HealthCheckResponse.SERVING
    # A `Watch` call stays open, and so counts against the limit of calls.
    with rpc_refused("UNAUTHENTICATED"):
        next(stub.Watch(request, timeout=PATIENCE_SECONDS))
    metadata = [("authorization", f"Bearer {SECRET}")]
    watched = stub.Watch(request, timeout=PATIENCE_SECONDS, metadata=metadata)
    assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
    watched.cancel()


def check(channel):
    """Returns whether a server is ready, over gRPC."""
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest()
    status = stub.Check(request, timeout=PATIENCE_SECONDS).status
    return status == health_pb2.HealthCheckResponse.SERVING


def test_grpc_is_encrypted(root, authority):
    served = tls.load(*authority.issue("server"), None)
    with running(root, tls=served, **authority.clients()) as server:
        assert check(server.channel)
        address = f"127.0.0.1:{server.grpc_port}"
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            check(channel)


def test_client_needs_a_certificate_of_the_clients_ca(root, authority, tmp_path):
    clients = Authority(tmp_path, "clients")
    served = tls.load(*authority.issue("server"), clients.path)
    trusted = authority.clients(*clients.issue("client"))
    with running(root, tls=served, **trusted) as server:
        assert check(server.channel)
        address = f"127.0.0.1:{server.grpc_port}"
        for pair in ((), authority.issue("stranger")):
            credentials = authority.clients(*pair)["credentials"]
            with (
                grpc.secure_channel(address, credentials) as channel,
                rpc_refused("UNAVAILABLE"),
            ):
                check(channel)


def test_changed_certificate_is_served_to_new_connections(
    root, authority, tmp_path, caplog, capfd
):
    paths = certificates.replace(tmp_path, authority.issue("first"))
    served = tls.load(*paths, None)
    with running(root, tls=served, **authority.clients()) as server:

        def certificate():
            address = ("127.0.0.1", server.grpc_port)
            pem = ssl.get_server_certificate(address, timeout=PATIENCE_SECONDS)
            return pem.split()

        first = certificate()
        # A key of another kind and certificate: the earlier pair stays.
        second = authority.issue("second", key=rsa.generate_private_key(65537, 2048))
        certificates.replace(tmp_path, (second[0], authority.issue("other")[1]))
        wait_until(lambda: "does not match the certificate" in caplog.text)
        assert certificate() == first
        certificates.replace(tmp_path, second)
        wait_until(lambda: certificate() != first)
        for _ in range(2):
            assert certificate() == second[0].read_text().split()
        assert check(server.channel)
    assert "invalid" not in capfd.readouterr().err  # gRPC's log


def test_changed_client_ca_counts_for_new_connections(root, authority, tmp_path):
    accepted = tmp_path / "clients.pem"
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    shutil.copy(old.path, accepted)
    served = tls.load(*authority.issue("server"), accepted)
    trusted, later = (authority.clients(*ca.issue("client")) for ca in (old, new))
    with running(root, tls=served, **trusted) as server:
        address = f"127.0.0.1:{server.grpc_port}"

        def is_accepted(client):
            with grpc.secure_channel(address, client["credentials"]) as channel:
                try:
                    return check(channel)
                except grpc.RpcError:
                    return False

        assert is_accepted(trusted)
        assert not is_accepted(later)
        os.replace(shutil.copy(new.path, tmp_path / "copy"), accepted)
        wait_until(lambda: is_accepted(later))
        assert not is_accepted(trusted)
