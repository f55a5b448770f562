"""The errors of the server, and their status over HTTP and gRPC."""

from __future__ import annotations

import enum

from contracts.errors import UsageError


class Code(enum.Enum):
    """The result of a request, with the names and numbers of `google.rpc.Code`.

    gRPC and TensorFlow have the same.
    """

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @classmethod
    def _missing_(cls, value: object) -> Code:
        """Returns the code of a number that is not one of them."""
        return cls.UNKNOWN

    @property
    def http_status(self) -> int:
        """The HTTP status."""
        return _HTTP_STATUS.get(self, 500)


# As in TensorFlow Serving's `http_server.cc`; other codes are 500. A full queue is 503,
# so that load balancers try another server.
_HTTP_STATUS = {
    Code.OK: 200,
    Code.INVALID_ARGUMENT: 400,
    Code.FAILED_PRECONDITION: 400,
    Code.OUT_OF_RANGE: 400,
    Code.NOT_FOUND: 404,
    Code.UNIMPLEMENTED: 501,
    Code.RESOURCE_EXHAUSTED: 503,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}
# A message may quote a request of megabytes, and gRPC sends it in a header.
_MAX_MESSAGE_CHARACTERS = 2500


class ProcessEndedError(Exception):
    """The process of a version ended while it loaded the model."""


class RequestError(UsageError):
    """A request that is refused; clients see the message.

    Args:
      code: The status.
      setting: The field of the request, as in JSON; None if there is none.
      got: Its value, or what is wrong with it.
      allowed: The values that are allowed.
      advice: What to do next.

    Attributes:
      code: See above.
    """

    def __init__(
        self,
        code: Code,
        setting: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(setting, got, allowed, advice, name="E-request-refused")
        self.code = code

    @property
    def message(self) -> str:
        """The message for clients, truncated if it is long."""
        text = self.sentence(_show_in_json)
        if len(text) > _MAX_MESSAGE_CHARACTERS:
            text = f"{text[:_MAX_MESSAGE_CHARACTERS]}..."
        # JSON allows an unpaired surrogate, which UTF-8 cannot encode.
        return text.encode("utf-8", "backslashreplace").decode()

    @property
    def http_status(self) -> int:
        """The HTTP status."""
        return self.code.http_status


def _show_in_json(name: str, value: str | None) -> str:
    return f'"{name}"' if value is None else f'"{name}": {value}'


def invalid(
    setting: str | None = None,
    got: str | None = None,
    allowed: str | None = None,
    advice: str | None = None,
) -> RequestError:
    """Returns the error of an invalid request."""
    code = Code.INVALID_ARGUMENT
    return RequestError(code, setting, got, allowed, advice)


def not_found(got: str) -> RequestError:
    """Returns the error of a request for a model or version that is not loaded."""
    return RequestError(Code.NOT_FOUND, got=got)


def unavailable(got: str) -> RequestError:
    """Returns the error of a request that may succeed later."""
    return RequestError(Code.UNAVAILABLE, got=got, advice="try again later")


def only_predict() -> RequestError:
    """Returns the error of a request to the classify, regress or multi-inference API.

    They run signatures with one input named `inputs`, which the pipeline never exports.
    """
    return invalid(
        got="this server has no classify, regress or multi-inference API, because no "
        "exported signature fits them",
        advice="use the predict method: POST /v1/models/NAME:predict, or Predict over "
        "gRPC",
    )


def is_invalid(error: Exception) -> bool:
    """Returns whether the request caused the error, not the model or the server."""
    return isinstance(error, RequestError) and error.code is Code.INVALID_ARGUMENT


def describe_failure(error: Exception) -> str:
    """Returns the message that clients see of an internal error.

    The error's own message is only logged: it may name files of this machine.
    """
    return f"{type(error).__name__}: the server's log has the details"


def check_rows(rows: int, limit: int) -> None:
    """Raises a RequestError if a request has more rows than may be queued."""
    if rows > limit:
        raise invalid(
            got=f"the request has {rows} rows",
            allowed=f"at most {limit} (the server's --max-queued-rows)",
            advice="send them in several requests",
        )
