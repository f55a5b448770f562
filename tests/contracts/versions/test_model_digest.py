import hashlib

from contracts.versions import model_digest


def write_model(directory, graph, identity=None):
    directory.mkdir()
    (directory / "saved_model.pb").write_bytes(graph)
    if identity is not None:
        (directory / "fingerprint.pb").write_bytes(identity)
    return str(directory)


def test_digests_identify_the_exported_model(tmp_path):
    model = write_model(tmp_path / "model", b"graph", b"first export")
    model_digest.write(model, str(tmp_path / "model_run"))
    digest = model_digest.read(str(tmp_path / "model_run"))
    assert digest.uri == model
    assert digest.graph == hashlib.sha256(b"graph").hexdigest()
    copy = write_model(tmp_path / "copy", b"graph", b"first export")
    other = write_model(tmp_path / "other", b"graph", b"second export")
    assert digest.identity == model_digest.identity(copy)
    assert digest.identity != model_digest.identity(other)


def test_model_without_a_fingerprint_has_no_identity(tmp_path):
    assert model_digest.identity(write_model(tmp_path / "model", b"graph")) == ""
