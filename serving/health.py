"""Whether the server should be sent requests, over HTTP and gRPC alike."""

from __future__ import annotations

from grpc_health.v1 import health, health_pb2

from serving.versions import Versions

_SERVICES = (
    health.OVERALL_HEALTH,
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
)


class Health:
    """Ready with a version in memory, until the server drains.

    Attributes:
      servicer: The gRPC health protocol.
      is_draining: Whether the server answers what it has, and takes nothing new.
    """

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self.servicer = health.aio.HealthServicer()
        self.is_draining = False

    @property
    def is_ready(self) -> bool:
        """Whether to send requests here."""
        return self._versions.is_available and not self.is_draining

    async def publish(self) -> None:
        """Tells gRPC's clients, also those that watch."""
        statuses = health_pb2.HealthCheckResponse
        status = statuses.SERVING if self.is_ready else statuses.NOT_SERVING
        for service in _SERVICES:
            await self.servicer.set(service, status)
