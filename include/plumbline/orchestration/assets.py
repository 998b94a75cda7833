"""What DAGs tell each other."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

RESULTS = Asset(name="plumbline_results", uri="x-plumbline://results")
"""New results are in the archive; each event says of which campaign and provider: {campaign_id, provider}."""

CHANGES = AssetAlias(name="provider_changed")
"""Outlet of whoever may find that a provider changed: a mapped task says only when it runs which provider it is about."""


def provider_changed(provider: str) -> Asset:
    """The provider is no longer what its last results were measured on.

    Each event says what is different: {provider, reason (one line for people), diff [{fact, old, new}], findings [ids], at}.
    """
    return Asset(name=f"provider_changed_{provider.replace('-', '_')}", uri=f"x-plumbline://provider_changed/{provider}")
