"""Connecting for people: a client that gives up soon."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.model import Estate
from mirrorfleet.kafka.cluster import Cluster

_CONNECT_S: Final = 5.0
_REQUEST_S: Final = 15.0


def open_cluster(estate: Estate, alias: str) -> Cluster:
    """A client with a person's patience; nothing is connected yet."""
    settings = cluster_settings(estate, alias, "mirrorfleet-cli")
    patient = replace(settings, connect_timeout_s=_CONNECT_S, request_timeout_s=_REQUEST_S)
    return Cluster(patient)
