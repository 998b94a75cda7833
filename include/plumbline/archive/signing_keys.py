"""The public halves of the keys with which attempts sign their results, as the launcher issued them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from plumbline.archive.inserts import insert_new
from plumbline.archive.models import Base

_KEY = ("campaign_id", "trial_id", "attempt")


class SigningKey(Base):
    """The public key of one attempt. It refers to no trial: it is issued before there is anything to record."""

    __tablename__ = "signing_keys"
    campaign_id: Mapped[str] = mapped_column(primary_key=True)
    trial_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    public_key: Mapped[str]
    issued_at: Mapped[datetime]


def issue(session: Session, campaign_id: str, trial_id: str, attempt: int, public_key: str, now: datetime) -> None:
    """Keep the key of an attempt. One of a launcher that died before it announced the attempt is replaced: no pod ever had it."""
    key = dict(zip(_KEY, (campaign_id, trial_id, attempt), strict=True))
    values = {"public_key": public_key, "issued_at": now}
    if not insert_new(session, SigningKey, {**key, **values}, _KEY):
        session.execute(update(SigningKey).filter_by(**key).values(**values))


def of_trial(session: Session, campaign_id: str, trial_id: str) -> dict[int, str]:
    """The public keys of a trial's attempts, by attempt."""
    query = select(SigningKey.attempt, SigningKey.public_key).filter_by(campaign_id=campaign_id, trial_id=trial_id)
    return dict(session.execute(query).tuples().all())
