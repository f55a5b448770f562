"""Errors that clients see."""

from serving.errors import Code, RequestError


def test_message_is_bounded_and_can_be_sent():
    error = RequestError(Code.NOT_FOUND, got="\ud800" + "x" * 10_000)
    assert error.message.startswith("\\ud800xxx")
    assert len(error.message) < 3000
    assert error.message.encode()
    assert error.http_status == 404
