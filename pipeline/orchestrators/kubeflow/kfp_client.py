"""kfp's client, with timeouts and clear errors. Importing this imports kfp."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import urllib.parse
from collections.abc import Iterator
from typing import Any

import kfp
import kfp.client
import kfp_server_api
import kfp_server_api.rest
from google.auth.exceptions import GoogleAuthError
from urllib3.exceptions import HTTPError, ReadTimeoutError

from contracts.errors import SettingError, UsageError
from pipeline.orchestrators import run_files
from pipeline.orchestrators.kubeflow.login import KubeflowServer

TOKEN_VARIABLE = "KF_PIPELINES_TOKEN"
COOKIES_VARIABLE = "KF_PIPELINES_COOKIES"
# Names that kfp reads.
IAP_SECRET_VARIABLE = "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"
TOKEN_FILE_VARIABLE = kfp.client.KF_PIPELINES_SA_TOKEN_ENV
# In an installation for one user.
DEFAULT_NAMESPACE = "kubeflow"

# To connect and to read, in seconds. urllib3 tries four times: 20 s for a host that
# drops packets, 28 s for one that accepts the connection and sends nothing.
TIMEOUT = (5, 7)
# To read the response of a request that creates something, which is sent once.
WRITE_TIMEOUT = 60

_LOG_IN = (
    f"log in with a bearer token in ${TOKEN_VARIABLE}, cookies in "
    f"${COOKIES_VARIABLE}, Google's Identity-Aware Proxy (its client ID, with a "
    "service account's key in "
    "$GOOGLE_APPLICATION_CREDENTIALS, or with the client ID of a desktop app and "
    f"${IAP_SECRET_VARIABLE}), or inside a cluster the token of the pod's service "
    "account"
)
# Every other header of a request may be a credential.
_PUBLIC_HEADERS = frozenset({"accept", "content-type", "user-agent"})


class _RestClient(kfp_server_api.rest.RESTClientObject):
    """Sends every request with a timeout, and refuses credentials in clear text."""

    def request(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Sends a request.

        Raises:
          UsageError: The request has credentials, and the address is `http://` on
            another machine.
        """
        parts = urllib.parse.urlsplit(url)
        has_credentials = any(
            name.lower() not in _PUBLIC_HEADERS for name in headers or {}
        )
        is_clear_text = parts.scheme == "http" and not _is_loopback(parts.hostname)
        if has_credentials and is_clear_text:
            raise SettingError(
                "host",
                f"http://{parts.netloc} would receive the credentials in clear text",
                advice="give the https:// address of the server, or of a gateway or "
                "service mesh that terminates TLS; or run `kubectl port-forward` on "
                "this machine and give http://localhost:PORT",
            )
        if options.get("_request_timeout") is None:
            read_timeout = TIMEOUT[1] if method == "GET" else WRITE_TIMEOUT
            options["_request_timeout"] = (TIMEOUT[0], read_timeout)
        return super().request(method, url, headers=headers, **options)


class Client(kfp.Client):
    """kfp's client. It fails early for an unreachable server, and writes no file."""

    def get_kfp_healthz(self, sleep_duration: int = 5) -> Any:
        """Requests the health of Kubeflow Pipelines once.

        kfp tries five times, `sleep_duration` apart, and logs a traceback each time,
        even if a token was refused.

        Raises:
          UsageError: The response is not from the API, but for example a log-in page;
            or credentials would be sent in clear text.
        """
        api = self._healthz_api
        # kfp's constructor sends this request first, so later ones are covered too.
        api.api_client.rest_client = _RestClient(api.api_client.configuration)
        health, _, headers = api.healthz_service_get_healthz_with_http_info()
        kind = headers.get("content-type", "no content type")
        if "json" not in kind:
            host = api.api_client.configuration.host
            raise _refused(
                f"{host} responded with {kind} instead of JSON, so it is not the API "
                "of Kubeflow Pipelines: it may be a log-in page, or the address lacks "
                "a path such as /pipeline",
                _LOG_IN,
            )
        return health

    def set_user_namespace(self, namespace: str) -> None:
        """Sets the namespace of this client; kfp also writes it to `~/.config/kfp`."""
        self._context_setting["namespace"] = namespace

    def read_pod_log(self, run_id: str, pod: str) -> str:
        """Returns the end of a pod's log; "" if it is unavailable.

        kfp's client has no method for it. The API server has `ReadRunLogV1`, which the
        address of a user interface may not forward.
        """
        tail = b""
        try:
            response = self.runs.api_client.call_api(
                "/apis/v1alpha1/runs/{run_id}/nodes/{pod}/log",
                "GET",
                path_params={"run_id": run_id, "pod": pod},
                header_params={"Accept": "text/plain"},
                auth_settings=["Bearer"],
                _preload_content=False,
                _return_http_data_only=True,
            )
            for part in response.stream(run_files.TAIL_BYTES):
                tail = (tail + part)[-run_files.TAIL_BYTES :]
        except (kfp_server_api.ApiException, HTTPError):
            return ""
        is_text = response.headers.get("content-type", "").startswith("text/plain")
        # Older servers send an error with the status 200.
        is_error = tail.startswith(b'{"error_message"')
        return tail.decode(errors="replace") if is_text and not is_error else ""


def connect(server: KubeflowServer) -> Client:
    """Returns a client that is logged in.

    Raises:
      UsageError: The settings for the log-in are incomplete, or the server has several
        users and no namespace is set.
    """
    if server.iap_desktop_client_id and not _secret(IAP_SECRET_VARIABLE):
        raise _refused(
            f"not set, but the desktop app {server.iap_desktop_client_id} has a secret",
            "set it to the secret of its client ID",
            IAP_SECRET_VARIABLE,
        )
    credentials = None
    if server.pod_token:
        default_path = kfp.client.KF_PIPELINES_SA_TOKEN_PATH
        path = os.environ.get(TOKEN_FILE_VARIABLE) or default_path
        if not os.path.isfile(path):
            raise _refused(
                f"the token of the pod's service account is not at {path}",
                "mount it there (a projected volume, audience pipelines.kubeflow.org), "
                f"or set ${TOKEN_FILE_VARIABLE} to its path",
                "pod_token",
            )
        credentials = kfp.client.ServiceAccountTokenVolumeCredentials(path)
    client = Client(
        host=server.host,
        # With its default, kfp reads the namespace from `~/.config/kfp`.
        namespace=server.namespace or DEFAULT_NAMESPACE,
        existing_token=_secret(TOKEN_VARIABLE),
        cookies=_secret(COOKIES_VARIABLE),
        client_id=server.iap_client_id,
        other_client_id=server.iap_desktop_client_id,
        ssl_ca_cert=str(server.ca_file) if server.ca_file else None,
        credentials=credentials,
    )
    multi_user = client.get_kfp_healthz().multi_user
    if multi_user and not (server.namespace or client.get_user_namespace()):
        raise UsageError(
            "namespace",
            f"missing, but {server.host} has several users",
            advice="use `namespace=NAME`",
            name="E-option-missing",
        )
    return client


@contextlib.contextmanager
def clear_errors(host: str) -> Iterator[None]:
    """Turns errors of the server and the connection into `UsageError`s."""
    try:
        yield
    except kfp_server_api.ApiException as error:
        raise _refused(*_explain_refusal(host, error)) from error
    except HTTPError as error:
        raise _unreachable(host, error) from error
    except GoogleAuthError as error:
        raise _refused(
            f"no token for the Identity-Aware Proxy of {host}: {error}",
            "set it to the key file of a service account",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ) from error


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _secret(variable: str) -> str | None:
    """Returns a secret from the environment; error messages never contain it."""
    value = os.environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()):
        raise UsageError(
            variable,
            "has characters that an HTTP header cannot have",
            "printable ASCII characters",
            name="E-orchestrator-refused",
        )
    return value or None


def _without_secrets(message: str) -> str:
    for variable in (TOKEN_VARIABLE, COOKIES_VARIABLE, IAP_SECRET_VARIABLE):
        secret = _secret(variable)
        if secret:
            message = message.replace(secret, f"${variable}")
    return message


def _refused(problem: str, advice: str | None, setting: str = "host") -> UsageError:
    return UsageError(setting, problem, advice=advice, name="E-orchestrator-refused")


def _explain_refusal(host: str, error: Any) -> tuple[str, str | None]:
    try:
        content = json.loads(error.body or "")
        message = content.get("message") or content.get("error") or error.body
    except (ValueError, AttributeError):  # not from the API, but from a proxy
        message = error.body or "no message"
    refusal = (
        f"{host} refused ({error.status} {error.reason}): {str(message).strip()[:400]}"
    )
    advice = {
        401: _LOG_IN,
        403: _LOG_IN,
        404: "give the address of Kubeflow Pipelines 2",
        409: "choose another `run_name`",
    }.get(error.status)
    return _without_secrets(refusal), advice


def _unreachable(host: str, error: Any) -> UsageError:
    reason = getattr(error, "reason", None) or error
    problem = f"{host} cannot be reached ({type(reason).__name__}: {reason})"
    advice = "check the address, and the network or the port-forward to the cluster"
    # urllib3 raises it itself for requests sent once, within MaxRetryError for others.
    if isinstance(error, ReadTimeoutError):
        problem = (
            f"{host} did not respond in {WRITE_TIMEOUT} s to a request that creates "
            "something, and may still create it"
        )
        advice = "look there before you submit again"
    elif "CERTIFICATE" in str(reason):
        advice = "if a private authority signed its certificate, use `ca_file=FILE`"
    return UsageError(
        "host", _without_secrets(problem), advice=advice, name="E-network-failed"
    )
