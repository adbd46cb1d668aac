"""Whose machine an address names: texts leave this one only for a host that was chosen."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def host_of(address: str) -> str:
    """Return the host of an address, with its port where it has one, without user and password."""
    return urlsplit(address).netloc.rpartition("@")[2]


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine: nothing that is sent there leaves it."""
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # another name, or no address at all
