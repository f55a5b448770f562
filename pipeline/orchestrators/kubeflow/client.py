"""kfp's client, with clear errors. Importing this imports kfp."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import kfp
import kfp.client
import kfp_server_api
import kfp_server_api.rest
from google.auth.exceptions import GoogleAuthError
from urllib3.exceptions import HTTPError, ReadTimeoutError

from pipeline.config.errors import UsageError

if TYPE_CHECKING:
    from pipeline.orchestrators.kubeflow.server import KubeflowServer

TOKEN_VARIABLE = "KF_PIPELINES_TOKEN"
COOKIES_VARIABLE = "KF_PIPELINES_COOKIES"
# kfp's own names.
IAP_SECRET_VARIABLE = "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"
TOKEN_FILE_VARIABLE = kfp.client.KF_PIPELINES_SA_TOKEN_ENV
_SECRETS = (TOKEN_VARIABLE, COOKIES_VARIABLE, IAP_SECRET_VARIABLE)

# To connect and to read, in seconds. urllib3 tries four times, so a host that swallows
# packets is given up after 20 s, one that accepts and is silent after 28 s.
TIMEOUT = (5, 7)
# To read the response of a request that creates something. Such a request is sent once.
WRITE_TIMEOUT = 60

# So often in a row may the state of a run not be had: a network that is gone for a
# moment, an API server that restarts.
_LOOKS_MISSED = 10

_AUTHENTICATION = (
    f"a bearer token in ${TOKEN_VARIABLE}, cookies in ${COOKIES_VARIABLE}, Google's "
    "Identity-Aware Proxy (its client ID, with a service account's key in "
    "$GOOGLE_APPLICATION_CREDENTIALS, or with the client ID of a desktop app and "
    f"${IAP_SECRET_VARIABLE}), or inside a cluster the token of the pod's service "
    "account"
)
_MESSAGE_LENGTH = 400
# Every other header of a request is a credential.
_PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent"})


class _RestClient(kfp_server_api.rest.RESTClientObject):
    """Sends every request with a timeout, and credentials only in private."""

    def request(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        _request_timeout: tuple[float, float] | None = None,
        **arguments: Any,
    ) -> Any:
        """Sends a request.

        Args:
          method: HTTP method.
          url: Address.
          headers: Of the request.
          _request_timeout: Seconds to connect and to read; kfp gives none.
          **arguments: Passed on.

        Raises:
          UsageError: The request has credentials, and the address is `http://` on
            another machine.
        """
        _refuse_clear_text(url, headers or {})
        timeout = TIMEOUT if method == "GET" else (TIMEOUT[0], WRITE_TIMEOUT)
        return super().request(
            method,
            url,
            headers=headers,
            _request_timeout=_request_timeout or timeout,
            **arguments,
        )


class Client(kfp.Client):
    """kfp's client, which fails early for an unreachable server and writes no file."""

    def get_kfp_healthz(self, sleep_duration: int = 5) -> Any:
        """Requests the health of Kubeflow Pipelines once.

        kfp tries five times, 5 s apart, and logs a traceback each time, even where a
        token was refused; where packets are swallowed it waits as long as TCP does.

        Args:
          sleep_duration: As kfp calls it; there is no second time.

        Raises:
          UsageError: The response is not from the API, but a log-in page for example.
            Or credentials would be sent in clear text.
        """
        api = self._healthz_api
        # This is the first request of a client: kfp sends it in its constructor.
        api.api_client.rest_client = _RestClient(api.api_client.configuration)
        health, _, headers = api.healthz_service_get_healthz_with_http_info()
        kind = headers.get("content-type", "no content type")
        if "json" not in kind:
            host = api.api_client.configuration.host
            raise UsageError(
                f"{host} responded with {kind}, so it is not the API of Kubeflow "
                "Pipelines: perhaps a page to log in on, or the address lacks what "
                "comes after the host, as /pipeline. To log in there is "
                f"{_AUTHENTICATION}"
            )
        return health

    def set_user_namespace(self, namespace: str) -> None:
        """Takes the namespace of the pod for this client alone.

        kfp also writes it to `~/.config/kfp`, where it would hold for all that comes.
        """
        self._context_setting["namespace"] = namespace


def connect(server: KubeflowServer) -> Client:
    """Returns a client of a server that was reached and let us in.

    Raises:
      UsageError: An authentication is incomplete, or the server serves several users
        and no namespace is given.
    """
    token, cookies = _secret(TOKEN_VARIABLE), _secret(COOKIES_VARIABLE)
    if server.iap_desktop_client_id and not _secret(IAP_SECRET_VARIABLE):
        raise UsageError(
            f"the client ID of a desktop app {server.iap_desktop_client_id} needs its "
            f"secret: set ${IAP_SECRET_VARIABLE}"
        )
    client = Client(
        host=server.host,
        namespace=server.namespace or "kubeflow",  # kfp's word for none
        existing_token=token,
        cookies=cookies,
        client_id=server.iap_client_id,
        other_client_id=server.iap_desktop_client_id,
        ssl_ca_cert=str(server.ca_file) if server.ca_file else None,
        credentials=_pod_token() if server.pod_token else None,
    )
    multi_user = client.get_kfp_healthz().multi_user
    if multi_user and not (server.namespace or client.get_user_namespace()):
        raise UsageError(
            f"{server.host} serves several users: give the namespace to run in"
        )
    return client


class RunWatch:
    """Looks at a run, over a token that ends and a network that is gone for a while.

    Args:
      server: Where the run is.
      client: A client of it.
      run: The run as the server gave it last.
    """

    def __init__(self, server: KubeflowServer, client: Client, run: Any) -> None:
        self._server = server
        self._client = client
        self._run = run
        self._missed = 0

    @property
    def state(self) -> str:
        """The state that was seen last; the server leaves it out at first."""
        return self._run.state or "PENDING"

    def look(self) -> str:
        """Returns the state as it is now."""
        try:
            self._run = self._read()
            self._missed = 0
        except (kfp_server_api.ApiException, HTTPError) as error:
            self._missed += 1
            refused = getattr(error, "status", 500) < 500
            if refused or self._missed > _LOOKS_MISSED:
                raise
        return self.state

    def reasons(self) -> str:
        """Returns why the run failed, as far as the server says."""
        details = self._run.run_details
        tasks = (details.task_details if details else None) or []
        lines = [
            f"{task.display_name} {_text(task.error)}".strip()
            for task in tasks
            if task.state == "FAILED" and task.display_name != "root"
        ]
        return "; ".join(filter(None, [_text(self._run.error), *lines]))

    def _read(self) -> Any:
        run_id = self._run.run_id
        try:
            return self._client.runs.run_service_get_run(run_id)
        except kfp_server_api.ApiException as error:
            if error.status != 401:
                raise
        # A token of Identity-Aware Proxy lasts an hour, a run may last days.
        self._client = connect(self._server)
        return self._client.runs.run_service_get_run(run_id)


def _text(error: Any) -> str:
    return (error.message if error else None) or ""


@contextlib.contextmanager
def clear_errors(host: str) -> Iterator[None]:
    """Turns what a server or the way to it refuses into errors a user can mend."""
    try:
        yield
    except kfp_server_api.ApiException as error:
        raise UsageError(_without_secrets(_refusal(host, error))) from error
    except HTTPError as error:
        raise UsageError(_without_secrets(_unreachable(host, error))) from error
    except GoogleAuthError as error:
        raise UsageError(
            f"no token for the Identity-Aware Proxy of {host}: {error}. Set "
            "$GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account"
        ) from error


def _refuse_clear_text(url: str, headers: dict[str, str]) -> None:
    parts = urllib.parse.urlsplit(url)
    has_credentials = any(name.lower() not in _PUBLIC_HEADERS for name in headers)
    if has_credentials and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise UsageError(
            f"the host http://{parts.netloc} would receive the credentials in clear "
            "text. Give the https:// address of the server, or of a gateway or service "
            "mesh that terminates TLS. Or run `kubectl port-forward` on this machine "
            "and give http://localhost:PORT"
        )


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _pod_token() -> Any:
    path = os.environ.get(TOKEN_FILE_VARIABLE) or kfp.client.KF_PIPELINES_SA_TOKEN_PATH
    if not os.path.isfile(path):
        raise UsageError(
            f"the token of the pod's service account is not at {path}: mount it there "
            "(a projected volume, audience pipelines.kubeflow.org), or say where it "
            f"is in ${TOKEN_FILE_VARIABLE}"
        )
    return kfp.client.ServiceAccountTokenVolumeCredentials(path)


def _secret(variable: str) -> str | None:
    """Returns a secret of the environment; the message about a bad one hides it."""
    value = os.environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"${variable} has characters that no HTTP header can carry")
    return value or None


def _without_secrets(message: str) -> str:
    for variable in _SECRETS:
        secret = _secret(variable)
        if secret:
            message = message.replace(secret, f"${variable}")
    return message


def _refusal(host: str, error: Any) -> str:
    said = f"{host} refused ({error.status} {error.reason}): {_server_message(error)}"
    if error.status in (401, 403):
        return f"{said}. To log in there is {_AUTHENTICATION}"
    if error.status == 404:
        return f"{said}. Is this the address of Kubeflow Pipelines 2?"
    if error.status == 409:
        return f"{said}. Choose another name for the run"
    return said


def _server_message(error: Any) -> str:
    """Returns what the server says, which is JSON if it comes from the API itself."""
    try:
        content = json.loads(error.body or "")
        message = content.get("message") or content.get("error") or error.body
    except (ValueError, AttributeError):
        message = error.body or "no message"
    return str(message).strip()[:_MESSAGE_LENGTH]


def _unreachable(host: str, error: Any) -> str:
    reason = getattr(error, "reason", None) or error
    # Raised as it is for what urllib3 sends once; other requests raise MaxRetryError.
    if isinstance(error, ReadTimeoutError):
        return (
            f"{host} did not respond in {WRITE_TIMEOUT} s to a request that creates "
            "something. It may still do so: look there before you submit again"
        )
    advice = "is the address right, the cluster's network or port-forward there?"
    if "CERTIFICATE" in str(reason):
        advice = "if a private authority signed its certificate, give that as CA file"
    return f"{host} cannot be reached ({type(reason).__name__}: {reason}); {advice}"
