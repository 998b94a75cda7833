"""Object stores on loopback: real S3, Google Cloud Storage and Azure APIs over HTTP, each with one empty bucket.

Azure's needs `azurite-blob` on the PATH (`npm install -g azurite`), the others are Python packages.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = "plumbline-results"
AZURITE = "azurite-blob"
_ACCOUNT, _ACCOUNT_KEY = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class ObjectStore:
    """A running server.

    `place`: variables that say where it is. `login`: variables with credentials, as a pod gets them from its Secret. `connection`: an
    Airflow connection with the same. `refused`: credentials that it does not know; empty if it lets everybody in.
    """

    scheme: str
    place: dict[str, str]
    login: dict[str, str]
    connection: dict[str, Any]
    refused: dict[str, str] = field(default_factory=dict)


@contextmanager
def s3() -> Iterator[ObjectStore]:
    """Amazon's API."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    boto3.client("s3", "us-east-1", endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test").create_bucket(
        Bucket=BUCKET
    )
    extra = {"endpoint_url": address, "region_name": "us-east-1"}
    try:
        yield ObjectStore(
            "s3",
            {},
            {
                "AWS_ENDPOINT_URL": address,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
            {"conn_type": "aws", "login": "test", "password": "test", "extra": extra},
        )
    finally:
        server.stop()


@contextmanager
def google() -> Iterator[ObjectStore]:
    """Google's API, and the endpoint where a service account's key is exchanged for a token."""
    from gcp_storage_emulator.server import create_server

    port = _free_port()
    tokens = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    thread = threading.Thread(target=tokens.serve_forever)
    thread.start()
    key = json.dumps(_service_account(f"http://127.0.0.1:{tokens.server_port}/token"), indent=2)
    try:
        with create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET):
            yield ObjectStore(
                "gs",
                {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"},
                {"FSSPEC_GS_TOKEN": key},
                {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": key, "project": "plumbline"}},
            )
    finally:
        tokens.shutdown()
        tokens.server_close()
        thread.join()


class _Tokens(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the tests' output quiet."""


def _service_account(token_uri: str) -> dict[str, str]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "trial@example.iam.gserviceaccount.com",
        "private_key": pem.decode(),
        "token_uri": token_uri,
    }


@contextmanager
def azure() -> Iterator[ObjectStore]:
    """Azure's API: the account that azurite has from the start."""
    from azure.storage.blob import BlobServiceClient

    program, port = shutil.which(AZURITE), _free_port()
    if program is None:
        raise FileNotFoundError(f"{AZURITE} is not on the PATH")
    options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    address = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    server = subprocess.Popen([program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options], stdout=subprocess.DEVNULL)
    try:
        _until(lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close(), server)
        BlobServiceClient(address, credential={"account_name": _ACCOUNT, "account_key": _ACCOUNT_KEY}).create_container(BUCKET)
        yield ObjectStore(
            "az",
            {},
            {"AZURE_STORAGE_CONNECTION_STRING": _connection_string(address, _ACCOUNT_KEY)},
            {"conn_type": "wasb", "login": _ACCOUNT, "password": _ACCOUNT_KEY, "host": address},
            {"AZURE_STORAGE_CONNECTION_STRING": _connection_string(address, "YW5vdGhlciBrZXk=")},
        )
    finally:
        server.terminate()
        server.wait(timeout=60)


def _connection_string(address: str, key: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={key};BlobEndpoint={address}"


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def _until(works: Callable[[], object], server: subprocess.Popen[bytes], patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            works()
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{AZURITE} did not start: exit status {server.poll()}") from error
            time.sleep(0.1)
        else:
            return
