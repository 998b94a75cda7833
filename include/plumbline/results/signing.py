"""Signed results: an attempt's one-time key, the document's signature, and its verification."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from plumbline.results.document import ResultDocument, Signature, Validity

KEY_VARIABLE = "PLUMBLINE_SIGNING_KEY"
"""Environment variable that hands the private half, 64 hexadecimal digits, to a trial's pod."""
UNKNOWN_HARNESS = "unknown"
"""`harness_version` of a document that no harness wrote."""


NO_KEY = "the document is signed, but the archive holds no signing key of its trial"
NOT_SIGNED = "the document is not signed, but the launcher issued a signing key for its trial"


class InvalidKey(ValueError):
    """A process received an invalid signing key. The message does not quote it."""


@dataclass(frozen=True)
class KeyPair:
    """An attempt's key pair. Its repr shows the public half alone."""

    private: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> KeyPair:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def parse(cls, text: str, where: object) -> KeyPair:
        """The key with this private half; InvalidKey, naming `where` it was, if it is none."""
        try:
            return cls(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))
        except ValueError:
            raise InvalidKey(f"{where} is not a key; expected the 64 hexadecimal digits of an Ed25519 private key") from None

    @property
    def public_hex(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()

    @property
    def private_hex(self) -> str:
        return self.private.private_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"KeyPair({self.public_hex})"


def take_key(environment: MutableMapping[str, str]) -> KeyPair | None:
    """The key that the launcher handed to this process, removed from `environment` so that no child process inherits it.

    None without one; InvalidKey if it is invalid."""
    text = environment.pop(KEY_VARIABLE, None)
    return None if text is None else KeyPair.parse(text, KEY_VARIABLE)


def sign(document: ResultDocument, key: KeyPair) -> ResultDocument:
    return document.model_copy(update={"signature": Signature(value=key.private.sign(document.content()).hex())})


SignatureStatus = Literal["verified", "verified_as_exported", "not_signed", "broken"]


@dataclass(frozen=True)
class Verification:
    """The result of checking a signature. `key`: the public half that verified it; `detail`: a sentence.

    verified: by the key that this installation's launcher issued. verified_as_exported: by the key that came with the document from another
    archive, which is trusted as far as that archive is. not_signed: the attempt was given no key. broken: it does not hold.
    """

    status: SignatureStatus
    detail: str
    key: str | None = None


def verify(document: ResultDocument, keys: Mapping[int, str]) -> Verification:
    """Check a document's signature. `keys`: the public halves that the launcher issued for the trial, by attempt; empty if it issued none."""
    signature, attempt = document.signature, document.trial.attempt
    if signature is None:
        if keys and not _written_by_collect(document):
            return Verification("broken", NOT_SIGNED)
        if keys and not _as_launched(document):
            return Verification("broken", f"the document is not signed, and its launch did not end with {document.validity.failure_class}")
        return Verification("not_signed", _unsigned_reason(document))
    if signature.validity is not None and not _explained(signature.validity, document):
        return Verification("broken", f"{signature.validity.status} was signed, and its launch does not explain {document.validity.status}")
    if attempt in keys and signature.attempt not in (None, attempt):
        return Verification("broken", f"the document was signed for attempt {signature.attempt}, not for attempt {attempt}")
    key = keys.get(signature.attempt or attempt)
    if key is None and keys:
        return Verification("broken", f"the launcher issued no signing key for attempt {signature.attempt or attempt}")
    used = key or signature.public_key
    if used is None:
        return Verification("broken", NO_KEY)
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(used)).verify(bytes.fromhex(signature.value), document.signed_bytes())
    except (InvalidSignature, ValueError):
        return Verification("broken", f"the signature does not match the document and the public key {used[:16]}…", used)
    if key is None:
        return Verification(
            "verified_as_exported", f"signed; verified with the public key {used[:16]}… as the exporting archive stored it", used
        )
    return Verification("verified", f"signed by its pod; verified with the public key {used[:16]}… that the launcher issued", used)


def verify_delivered(document: ResultDocument, keys: Mapping[int, str] | None) -> ResultDocument:
    """A document as its harness wrote it, with the public key that verified it. `keys`: see `verify`; None for a trial whose harness signs nothing.

    ValueError with a sentence if it must not be used, or carries what is added only after it arrived."""
    signature = document.signature
    added = {"launch": document.launch} | (
        {f"signature.{name}": getattr(signature, name) for name in ("public_key", "validity", "attempt")} if signature else {}
    )
    if carried := [name for name, value in added.items() if value is not None]:
        raise ValueError(f"the document carries {', '.join(carried)}, which no harness writes")
    if keys is None:
        return document
    if keys and signature is None:
        raise ValueError(NOT_SIGNED)
    return verify_collected(document, keys)


def verify_collected(document: ResultDocument, keys: Mapping[int, str]) -> ResultDocument:
    """The collected document and the public key that verified it; ValueError with a sentence if it must not be used."""
    verified = verify(document, keys)
    if verified.status in ("broken", "verified_as_exported"):  # a key that comes along with a result proves nothing here
        raise ValueError(verified.detail if verified.status == "broken" else NO_KEY)
    if document.signature is None:
        return document
    return document.model_copy(update={"signature": document.signature.model_copy(update={"public_key": verified.key})})


def _explained(signed: Validity, document: ResultDocument) -> bool:
    """Whether the launch gives the document another validity than the signed one: an interrupted harness does not know by what."""
    launch = document.launch
    return (
        signed.failure_class == "interrupted"
        and document.validity.status == "failed"
        and launch is not None
        and launch.failure_class == document.validity.failure_class
    )


def _as_launched(document: ResultDocument) -> bool:
    """Whether a failure that no harness wrote is the launch's own, or names a document that could not be used."""
    launch, failure = document.launch, document.validity.failure_class
    return failure in ("harness_error", launch.failure_class) if launch is not None else failure in (None, "harness_error", "interrupted")


def _written_by_collect(document: ResultDocument) -> bool:
    measured = (document.environment, document.metrics, document.curves, document.stages, document.telemetry, document.evidence)
    return document.harness_version == UNKNOWN_HARNESS and document.validity.status in ("failed", "missing") and not any(measured)


def _unsigned_reason(document: ResultDocument) -> str:
    launcher, in_pod = document.trial.provider.launcher.kind, document.trial.provider.launcher.runs_pods
    if _written_by_collect(document):
        return "not signed: its pod left no usable document" if in_pod else "not signed: the trial left no usable document"
    if document.simulated:
        return "not signed: simulated"
    if in_pod:
        return "not signed: launched before signing keys were issued"
    if document.trial.provider.launcher.outlasts_task:
        return "not signed: the job that measured it had no signing key"
    return "not signed: measured on this machine" if launcher == "local" else "not signed: measured from this machine"
