"""Credentials from Airflow connections, as options of fsspec's clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json

from plumbline.declarations import LocalLauncher
from plumbline.declarations.urls import sends_in_clear
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.harness import launcher_protocol

Options = dict[str, Any]


def store_options(url: str, connection_id: str, field: str = "launcher.results_connection") -> Options:
    """Options of the client of `url`. ValueError naming the connection, and the field that names it, if it is not defined or does not fit
    the URL."""
    connection = airflow_connection(connection_id, f"for {url} is not defined; create it, or correct {field}")
    reader = _READERS.get(url.partition("://")[0])
    if reader is None:
        raise ValueError(f"Airflow connection {connection_id}: {url} takes no credentials; remove {field}")
    try:
        options = {name: value for name, value in reader(connection, connection.extra_dejson).items() if value}
    except ValueError as error:
        raise ValueError(f"Airflow connection {connection_id} does not open {url}: {error}") from error
    if _sends_token_in_clear(options):
        raise ValueError(f"Airflow connection {connection_id} would send its token over plain http; expected an https:// endpoint")
    if not options:
        raise ValueError(
            f"Airflow connection {connection_id} has no credentials for {url}; expected login and password, or the extras of an "
            "aws, google_cloud_platform or wasb connection"
        )
    return options


def _sends_token_in_clear(options: Options) -> bool:
    """A session token or shared access signature goes out as it is. Secret keys only sign, so http:// stays possible with them."""
    parts = str(options.get("connection_string", "")).split(";")
    if any(part.startswith("SharedAccessSignature=") for part in parts):
        return "DefaultEndpointsProtocol=http" in parts or any(sends_in_clear(part.partition("=")[2]) for part in parts)
    return "token" in options and sends_in_clear(str(options.get("endpoint_url", "")))


def airflow_connection(connection_id: str, undefined: str) -> Any:
    """The Airflow connection; ValueError with `undefined` if it is not defined, ConnectionError if Airflow's API does not answer."""
    if (connection := defined_connection(connection_id)) is None:
        raise ValueError(f"Airflow connection {connection_id} {undefined}")
    return connection


def defined_connection(connection_id: str) -> Any | None:
    """The Airflow connection; None if it is not defined, ConnectionError if Airflow's API does not answer."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import Connection

    try:
        return Connection.get(connection_id)
    except AirflowNotFoundException:
        require_answer(connection_id)
        return None


def require_answer(connection_id: str) -> None:
    """ConnectionError if Airflow's API or its secrets backend does not answer the question for the connection, which the SDK calls "not defined"
    too."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetConnection
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    supervisor = getattr(task_runner, "SUPERVISOR_COMMS", None)  # only in a task
    try:
        if supervisor is not None:
            supervisor.send(GetConnection(conn_id=connection_id))
    except AirflowRuntimeError as error:
        raise ConnectionError(f"Airflow's API does not answer, so connection {connection_id} cannot be read: {error}") from error
    for backend in ensure_secrets_backend_loaded():
        try:
            backend.get_connection(conn_id=connection_id)
        except (NotImplementedError, ValueError):
            continue  # it holds none, or a text that is no connection: it answered
        except Exception as error:
            # Only the type: a client's message may quote its token.
            where = f"the secrets backend {type(backend).__name__} does not answer ({type(error).__name__})"
            raise ConnectionError(f"{where}, so connection {connection_id} cannot be read") from error


def model_secrets(model: Checkpoint, launcher: LocalLauncher, environment: Mapping[str, str]) -> dict[str, str]:
    """Secret variables with which a process on this machine fetches a checkpoint or a script's data: of `models_connection`, else of the environment.

    ValueError if the connection has nothing for it."""
    if isinstance(model, FolderCheckpoint):
        return {}
    url = model.url if isinstance(model, UrlCheckpoint) else launcher.models_url or "https://huggingface.co"
    scheme = url.partition("://")[0]
    of_hub = isinstance(model, HubCheckpoint) and scheme in ("http", "https")
    if launcher.models_connection is None:
        token = environment.get("HF_TOKEN") if of_hub and not sends_in_clear(url) else None
        return {launcher_protocol.MODELS_TOKEN_VARIABLE: token} if token else {}
    field = "launcher.models_connection"
    if not of_hub:
        return {launcher_protocol.MODELS_OPTIONS_VARIABLE: json.dumps(store_options(url, launcher.models_connection, field))}
    if sends_in_clear(url):
        raise ValueError(f"{url} is plain http, which would send the token of {launcher.models_connection} in clear; expected https://")
    undefined = f"for {url} is not defined; create it, or correct {field}"
    token = airflow_connection(launcher.models_connection, undefined).password
    if not token:
        raise ValueError(f"Airflow connection {launcher.models_connection} has no password; expected the hub's token there")
    return {launcher_protocol.MODELS_TOKEN_VARIABLE: str(token)}


def _aws(connection: Any, extra: Mapping[str, Any]) -> Options:
    return {
        "key": connection.login or extra.get("aws_access_key_id"),
        "secret": connection.password or extra.get("aws_secret_access_key"),
        "token": extra.get("aws_session_token"),
        "endpoint_url": extra.get("endpoint_url"),
        "client_kwargs": {"region_name": extra["region_name"]} if extra.get("region_name") else None,
    }


def _google(connection: Any, extra: Mapping[str, Any]) -> Options:
    # The connection's project is left out: it is for making buckets, and must be the credentials' own where it is given.
    key, path = extra.get("keyfile_dict"), extra.get("key_path")
    if isinstance(key, str) and key:
        try:
            key = from_json(key)
        except ValueError as error:
            raise ValueError(f"its extra keyfile_dict is not JSON ({error}); expected the service account's key file") from error
    if not key and path and not Path(path).is_file():
        # gcsfs would send the path to Google as a token.
        raise ValueError(f"its extra key_path names {path}, which does not exist here; expected the service account's key file")
    return {"token": key or path}


def _azure(connection: Any, extra: Mapping[str, Any]) -> Options:
    connection_string = extra.get("connection_string")
    if connection_string:
        return {"connection_string": connection_string}
    host = _account_url(connection.host or connection.login)
    if extra.get("tenant_id"):
        return {
            "account_name": urlsplit(host).netloc.partition(".")[0] if connection.host else None,
            "tenant_id": extra["tenant_id"],
            "client_id": connection.login,
            "client_secret": connection.password,
        }
    # As connection strings, since only those come before the AZURE_STORAGE_* variables that may hold the home store's credentials.
    key = extra.get("shared_access_key") or extra.get("account_key") or (None if extra.get("sas_token") else connection.password)
    if key:
        if not connection.login:
            raise ValueError("it has a key but no login; expected the storage account's name as login")
        return {"connection_string": f"BlobEndpoint={host};AccountName={connection.login};AccountKey={key}"}
    endpoint, _, token = str(extra.get("sas_token") or "").rpartition("?")
    if not token:
        return {}
    if not (endpoint or host):
        raise ValueError("it has a sas_token but no login; expected the storage account's name as login, or its URL before the token")
    return {"connection_string": f"BlobEndpoint={endpoint.rstrip('/') or host};SharedAccessSignature={token}"}


def _account_url(named: str | None) -> str:
    """The account's URL from its name, host or URL; empty without one."""
    if not named or "://" in named:
        return (named or "").rstrip("/")
    return f"https://{named}" if "." in named else f"https://{named}.blob.core.windows.net"


_READERS: Mapping[str, Callable[[Any, Mapping[str, Any]], Options]] = {
    "s3": _aws,
    "gs": _google,
    "gcs": _google,
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
}
