"""What a request can be refused with, over HTTP and gRPC alike."""

from __future__ import annotations

import grpc

# As TensorFlow Serving's `http_server.cc`; what is not named is a 500. A full queue
# answers 503, by which load balancers know that another server may do better.
_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
# A message may quote a request of megabytes, and gRPC carries it in a header.
_MAX_MESSAGE_CHARACTERS = 2500


class SettingsError(Exception):
    """A setting that the server refuses before it starts, with what to do next."""


class RequestError(Exception):
    """A request that is not answered, with the reason its sender is told.

    Attributes:
      code: The status of gRPC.
      message: In TensorFlow Serving's words where it has some; cut if it is long.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        if len(message) > _MAX_MESSAGE_CHARACTERS:
            message = f"{message[:_MAX_MESSAGE_CHARACTERS]}..."
        # Half of a surrogate pair is valid in JSON, but cannot be sent.
        message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def http_status(self) -> int:
        """The status of HTTP."""
        return _HTTP_STATUS.get(self.code, 500)


def invalid(message: str) -> RequestError:
    """Returns the error of a request that is itself at fault."""
    return RequestError(grpc.StatusCode.INVALID_ARGUMENT, message)


def is_invalid(error: Exception) -> bool:
    """Tells whether a request, and not the model or the server, is at fault."""
    return (
        isinstance(error, RequestError)
        and error.code is grpc.StatusCode.INVALID_ARGUMENT
    )


def describe_failure(error: Exception) -> str:
    """Returns the message for clients of an error of the server itself.

    The error's message stays in the log: it may have paths of this machine.
    """
    return f"{type(error).__name__}: the server's log has the details"


def check_rows(rows: int, limit: int) -> None:
    """Raises a RequestError if a request has more rows than may be queued."""
    if rows > limit:
        raise invalid(
            f"The request has {rows} rows; at most {limit} are allowed "
            "(--max-queued-rows). Send them in several requests"
        )
