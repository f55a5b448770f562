"""The errors of the server, and their status over HTTP and gRPC."""

from __future__ import annotations

import grpc

# As in TensorFlow Serving's `http_server.cc`; other codes are 500. A full queue is 503,
# so that load balancers try another server.
_HTTP_STATUS = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
# A message may quote a request of megabytes, and gRPC sends it in a header.
_MAX_MESSAGE_CHARACTERS = 2500


class ProcessEndedError(Exception):
    """The process of a version ended while it loaded the model."""


class RequestError(Exception):
    """A request that is refused; clients see the message.

    Attributes:
      code: The gRPC status.
      message: The reason, truncated if it is long.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        if len(message) > _MAX_MESSAGE_CHARACTERS:
            message = f"{message[:_MAX_MESSAGE_CHARACTERS]}..."
        # JSON allows an unpaired surrogate, which UTF-8 cannot encode.
        message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type, tuple[grpc.StatusCode, str]]:
        """Returns what another process builds the error from."""
        return type(self), (self.code, self.message)

    @property
    def http_status(self) -> int:
        """The HTTP status."""
        return http_status(self.code)


def http_status(code: grpc.StatusCode) -> int:
    """Returns the HTTP status of a gRPC status."""
    return _HTTP_STATUS.get(code, 500)


def invalid(message: str) -> RequestError:
    """Returns the error of an invalid request."""
    return RequestError(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str) -> RequestError:
    """Returns the error of a request for a model or version that is not loaded."""
    return RequestError(grpc.StatusCode.NOT_FOUND, message)


def unavailable(message: str) -> RequestError:
    """Returns the error of a request that may succeed later."""
    return RequestError(grpc.StatusCode.UNAVAILABLE, f"{message}. Try again later")


def only_predict() -> RequestError:
    """Returns the error of a request to the classify, regress or multi-inference API.

    They run signatures with one input named `inputs`, which the pipeline never exports.
    """
    return invalid(
        "This server has no classify, regress or multi-inference API, because no "
        "exported signature fits them. Use the predict method: POST "
        "/v1/models/NAME:predict, or Predict over gRPC"
    )


def is_invalid(error: Exception) -> bool:
    """Returns whether the request caused the error, not the model or the server."""
    return (
        isinstance(error, RequestError)
        and error.code is grpc.StatusCode.INVALID_ARGUMENT
    )


def describe_failure(error: Exception) -> str:
    """Returns the message that clients see of an internal error.

    The error's own message is only logged: it may name files of this machine.
    """
    return f"{type(error).__name__}: the server's log has the details"


def check_rows(rows: int, limit: int) -> None:
    """Raises a RequestError if a request has more rows than may be queued."""
    if rows > limit:
        raise invalid(
            f"The request has {rows} rows; at most {limit} are allowed "
            "(--max-queued-rows). Send them in several requests"
        )
