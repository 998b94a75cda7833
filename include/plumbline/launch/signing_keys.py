"""Signing keys of attempts: issued here, their public halves kept in the archive, which no pod and no result store's credentials reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from plumbline.declarations import Trial
from plumbline.results.signing import KeyPair

if TYPE_CHECKING:
    from plumbline.archive import Archive


def issue(trial: Trial) -> KeyPair:
    """A new key for an attempt that is not announced yet; its public half is in the archive before it is returned. OSError if that is away."""
    key = KeyPair.generate()
    with _archive() as archive:
        archive.issue_signing_key(trial.campaign_id, trial.trial_id, trial.attempt, key.public_hex)
    return key


def issued(campaign_id: str, trial_id: str) -> dict[int, str]:
    """The public keys of a trial's attempts, by attempt. OSError if the archive is away."""
    with _archive() as archive:
        return archive.signing_keys(campaign_id, trial_id)


@contextmanager
def _archive() -> Iterator[Archive]:
    from sqlalchemy.exc import DBAPIError

    from plumbline.archive import open_archive

    try:
        with open_archive() as archive:
            yield archive
    except DBAPIError as error:
        raise OSError(f"the archive, which holds the trials' public keys, does not answer: {error.orig}") from error
