"""An S3 server on this machine that pods can reach, and that can be away for a while without forgetting anything."""

from __future__ import annotations

import logging
from types import TracebackType

import boto3
from moto.server import ThreadedMotoServer


class ObjectStore:
    """One bucket behind an address; moto keeps its content in this process, so that a server that comes back still has it."""

    def __init__(self, host: str, bucket: str, key: str, secret: str) -> None:
        self.host, self.bucket, self.key, self.secret = host, bucket, key, secret
        self._port = 0
        self._server: ThreadedMotoServer | None = None

    @property
    def endpoint(self) -> str:
        """Its address, such as http://192.0.2.2:40123."""
        return f"http://{self.host}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The result store's URL."""
        return f"s3://{self.bucket}/plumbline"

    def up(self) -> None:
        """Answer, on the same port as before."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # one line a request
        self._server = ThreadedMotoServer(ip_address=self.host, port=self._port, verbose=False)
        self._server.start()
        self._port = self._server.get_host_and_port()[1]

    def down(self) -> None:
        """Refuse connections."""
        assert self._server is not None
        self._server.stop()
        self._server = None

    def pod_secret(self) -> dict[str, str]:
        """The credentials as pods get them: the content of the `results_secret`."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def objects(self) -> list[str]:
        """Every object's key."""
        listed = self._client().list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return [item["Key"] for item in listed]

    def read(self, key: str) -> bytes:
        return bytes(self._client().get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def __enter__(self) -> ObjectStore:
        self.up()
        try:
            self._client().create_bucket(Bucket=self.bucket)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self.down()

    def _client(self):  # type: ignore[no-untyped-def]  # boto3 makes its clients' classes while it runs
        return boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id=self.key, aws_secret_access_key=self.secret, region_name="us-east-1"
        )
