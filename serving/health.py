"""The readiness of the server, over HTTP and gRPC."""

from __future__ import annotations

from grpc_health.v1 import health, health_pb2

from serving.loaded_versions import LoadedVersions

_SERVICES = (
    health.OVERALL_HEALTH,
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
)


class Health:
    """Ready while a version is loaded and the server is not draining.

    Attributes:
      servicer: The gRPC health service.
      is_draining: Whether the server finishes its requests and accepts no new ones.
    """

    def __init__(self, versions: LoadedVersions) -> None:
        self._versions = versions
        self.servicer = health.aio.HealthServicer()
        self.is_draining = False

    @property
    def is_ready(self) -> bool:
        """Whether the server accepts requests."""
        return self._versions.is_available and not self.is_draining

    async def publish(self) -> None:
        """Updates the gRPC health service and its watchers."""
        statuses = health_pb2.HealthCheckResponse
        status = statuses.SERVING if self.is_ready else statuses.NOT_SERVING
        for service in _SERVICES:
            await self.servicer.set(service, status)
