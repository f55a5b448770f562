"""The address of Kubeflow Pipelines, and how to log in there."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from contracts.errors import SettingError, UsageError
from pipeline.config import secrets


@dataclasses.dataclass(frozen=True)
class KubeflowServer:
    """The address of Kubeflow Pipelines, and how to log in there.

    Secrets come from environment variables: a bearer token from `KF_PIPELINES_TOKEN`,
    cookies from `KF_PIPELINES_COOKIES`, the secret of a desktop app from
    `KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET`. kfp prefers the bearer token to
    Identity-Aware Proxy, and that to the pod's token.

    Attributes:
      host: Address of the API with its protocol, such as
        `https://kubeflow.example/pipeline` or, for a port forward,
        `http://localhost:8080`.
      namespace: Kubernetes namespace of the user, if the installation has several
        users; None reads it from `~/.config/kfp/context.json`.
      iap_client_id: Client ID of Google's Identity-Aware Proxy. The token belongs to
        the service account in `GOOGLE_APPLICATION_CREDENTIALS`.
      iap_desktop_client_id: Client ID of a desktop app, to log in as a person in a
        browser instead; kfp stores the token in `~/.config/kfp/credentials.json`.
      pod_token: Whether to use the token of the pod's service account, inside a
        cluster. Its path is `KF_PIPELINES_SA_TOKEN_PATH`, or kfp's default.
      ca_file: Certificates (PEM) of the authority that signed the server's certificate.

    Raises:
      UsageError: The host has no protocol, or the CA file does not exist.
    """

    host: str
    namespace: str | None = None
    iap_client_id: str | None = None
    iap_desktop_client_id: str | None = None
    pod_token: bool = False
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        secrets.refuse_password("host", self.host)
        if not self.host.startswith(("http://", "https://")):
            raise SettingError(
                "host",
                f"{self.host} has no protocol",
                f"https://{self.host} or http://{self.host}",
            )
        if self.ca_file is not None and not self.ca_file.is_file():
            raise UsageError(
                "ca_file",
                f"{self.ca_file} is not a file",
                "the certificates of an authority in PEM",
                name="E-data-not-found",
            )
        # With a final slash, kfp would request paths that start with //.
        object.__setattr__(self, "host", self.host.rstrip("/"))

    def run_link(self, run_id: str) -> str:
        """Returns the address of a run's page, as kfp prints it."""
        # The user interface may have another address than the API.
        address = os.environ.get("KF_PIPELINES_UI_ENDPOINT", self.host)
        return f"{address}/#/runs/details/{run_id}"
