"""The address of Kubeflow Pipelines, and how one logs in there."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from pipeline.config.errors import UsageError

# kfp's own name, for where the user interface has another address than the API.
_UI_VARIABLE = "KF_PIPELINES_UI_ENDPOINT"


@dataclasses.dataclass(frozen=True)
class KubeflowServer:
    """Where Kubeflow Pipelines is and how one logs in there.

    Secrets are no part of it; they come from environment variables: a bearer token from
    `KF_PIPELINES_TOKEN`, cookies from `KF_PIPELINES_COOKIES`, the secret of a desktop
    app from `KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET`. If there are several ways to log
    in, kfp takes the bearer token, then Identity-Aware Proxy, then the pod's token.

    Attributes:
      host: Address of the API with its protocol, as `https://kubeflow.example/pipeline`
        or, for a port forward, `http://localhost:8080`. The user interface is expected
        there too, unless `KF_PIPELINES_UI_ENDPOINT` is set.
      namespace: Kubernetes namespace of the user, where the installation serves
        several; None where it does not, and for the one that
        `~/.config/kfp/context.json` names.
      iap_client_id: Client ID of Google's Identity-Aware Proxy before the server. The
        token is that of the service account in `GOOGLE_APPLICATION_CREDENTIALS`.
      iap_desktop_client_id: Client ID of a desktop app, to log in as a person in a
        browser instead; kfp keeps what it gets in `~/.config/kfp/credentials.json`.
      pod_token: Whether to use the token of the pod's service account, inside a
        cluster; `KF_PIPELINES_SA_TOKEN_PATH` says where it is, if not where kfp expects
        it.
      ca_file: Certificates (PEM) of the authority that signed the server's.
    """

    host: str
    namespace: str | None = None
    iap_client_id: str | None = None
    iap_desktop_client_id: str | None = None
    pod_token: bool = False
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        if not self.host.startswith(("http://", "https://")):
            raise UsageError(
                f"the host {self.host} has no protocol; write https://{self.host} (or "
                "http://)"
            )
        if self.ca_file is not None and not self.ca_file.is_file():
            raise UsageError(f"the CA file {self.ca_file} is not a file")
        # kfp would make // of it.
        object.__setattr__(self, "host", self.host.rstrip("/"))

    def run_link(self, run_id: str) -> str:
        """Returns the address of a run's page, as kfp prints it."""
        address = os.environ.get(_UI_VARIABLE, self.host)
        return f"{address}/#/runs/details/{run_id}"
